"""Packets: as text, in hexadecimal or by layers with scapy, and in pcapng files.

Blocks and options of the files are those of draft-ietf-opsawg-pcapng-03. Our own writer,
because scapy's PcapNgWriter (2.8) has no nanoseconds, leaves its first
interface nameless and makes its file with the umask's mode.
"""

import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from kernel_delay.errors import OutputError, UnavailableError
from kernel_delay.formatting import printable
from kernel_delay.host.private_file import PrivateFile

SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
ENHANCED_PACKET = 6
BYTE_ORDER_MAGIC = 0x1A2B3C4D
UNKNOWN_SECTION_LENGTH = -1

OPT_COMMENT = 1
SHB_USERAPPL = 4
IF_NAME = 2
IF_TSRESOL = 9
NANOSECONDS = 9
MAX_OPTION_LEN = 0xFFFF

LINKTYPE_ETHERNET = 1


class PcapngWriter:
    """Writes one section of Ethernet packets; each block is in the file once it is written.

    A block is one write(2), so that a writer that is killed leaves a file of
    whole blocks, in which only the packet at hand can be missing. After a write
    that a full disk cut, the file ends within a block, which readers report.
    """

    def __init__(self, path: Path, application: str = "kernel-delay") -> None:
        """Create or replace `path` as a PrivateFile. Raises OutputError.

        What was in it stays until the first packet, or until the end of a run without an error.
        """
        self._interfaces: dict[str, int] = {}
        self._file = PrivateFile(path)
        body = struct.pack("=IHHq", BYTE_ORDER_MAGIC, 1, 0, UNKNOWN_SECTION_LENGTH)
        self._header = _block(SECTION_HEADER, body, [(SHB_USERAPPL, application.encode())])
        if self._file.replaces:
            return
        try:
            self._write_header()
        except OutputError:
            self._file.discard()
            raise

    def __enter__(self) -> Self:
        """The writer itself; leaving closes it."""
        return self

    def __exit__(self, kind: object, exc: BaseException | None, traceback: object) -> None:
        """Close the file; one without a packet is removed where an error leaves."""
        if exc is not None and not self._interfaces:
            self._file.discard()
        else:
            self.close()

    def close(self) -> None:
        """Close the file; the writer is of no use afterwards. Raises OutputError."""
        try:
            self._write_header()
        finally:
            self._file.close()

    def write_packet(
        self,
        time_ns: int,
        interface: str,
        packet: bytes,
        size: int,
        comments: Sequence[str] = (),
    ) -> None:
        """Append one packet, and before it its interface when that is new.

        `time_ns` counts from the epoch (CLOCK_REALTIME); `size` is the packet's
        own length, of which `packet` is the captured beginning. Comments longer
        than the format allows are cut. Raises OutputError when the file can't
        be written.
        """
        number = self._interfaces.get(interface)
        if number is None:
            number = self._add_interface(interface)
        body = struct.pack(
            "=IIIII",
            number,
            time_ns >> 32 & 0xFFFFFFFF,
            time_ns & 0xFFFFFFFF,
            len(packet),
            max(size, len(packet)),
        )
        options = [(OPT_COMMENT, _text(comment)) for comment in comments]
        self._write(ENHANCED_PACKET, body + _padded(packet), options)

    def _add_interface(self, name: str) -> int:
        body = struct.pack("=HHI", LINKTYPE_ETHERNET, 0, 0)
        options = [(IF_NAME, _text(name)), (IF_TSRESOL, bytes([NANOSECONDS]))]
        self._write(INTERFACE_DESCRIPTION, body, options)
        return self._interfaces.setdefault(name, len(self._interfaces))

    def _write_header(self) -> None:
        if self._header:
            self._file.write(self._header)
            self._header = b""

    def _write(self, kind: int, body: bytes, options: Sequence[tuple[int, bytes]]) -> None:
        self._write_header()
        self._file.write(_block(kind, body, options))


def _block(kind: int, body: bytes, options: Sequence[tuple[int, bytes]]) -> bytes:
    tail = b"".join(
        struct.pack("=HH", code, len(value)) + _padded(value) for code, value in options
    )
    if tail:
        tail += struct.pack("=HH", 0, 0)
    length = 12 + len(body) + len(tail)
    return struct.pack("=II", kind, length) + body + tail + struct.pack("=I", length)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _text(text: str) -> bytes:
    data = text.encode(errors="backslashreplace")
    # Cut between two characters, not within one.
    return data[:MAX_OPTION_LEN].decode(errors="ignore").encode()


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
