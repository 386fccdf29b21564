"""Bytes as the usual hexadecimal dump: offset, 16 bytes, their ASCII."""

BYTES_PER_LINE = 16


def hex_lines(data: bytes) -> list[str]:
    """The lines of a dump of `data`; none when it is empty."""
    return [
        f"{offset:04x}  {data[offset : offset + 8].hex(' '):<23}  "
        f"{data[offset + 8 : offset + BYTES_PER_LINE].hex(' '):<23}  "
        f"{_ascii(data[offset : offset + BYTES_PER_LINE])}"
        for offset in range(0, len(data), BYTES_PER_LINE)
    ]


def _ascii(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)
