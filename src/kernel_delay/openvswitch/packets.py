"""Packets as bytes: in hexadecimal, or by layers with scapy, which is an optional extra."""

import sys
from collections.abc import Callable

from kernel_delay.errors import UnavailableError
from kernel_delay.printable import printable


def packet_decoder() -> Callable[[bytes], list[str]]:
    """A function that gives the lines of an Ethernet packet's layers, as scapy shows them.

    Loads scapy, which takes a second or so and is why nothing else does. Raises
    UnavailableError when it is not installed.
    """
    try:
        # For the dissectors it registers: without them Ether's payload stays raw.
        import scapy.layers.all  # noqa: F401
        from scapy.layers.l2 import Ether
    except ModuleNotFoundError as error:
        raise UnavailableError(
            "decoding packets needs scapy, which is not installed:"
            f" {sys.executable} -m pip install scapy, or use --packet-decode hex"
        ) from error

    def lines(packet: bytes) -> list[str]:
        # Whatever a dissector makes of hostile bytes, the packet is still to be reported.
        try:
            text = Ether(packet).show(dump=True) or ""
        except Exception as error:
            return [f"<scapy can't decode it: {type(error).__name__}>"]
        return [printable(line.rstrip()) for line in text.splitlines()]

    return lines


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
