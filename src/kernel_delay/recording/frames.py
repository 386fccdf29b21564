"""A file as the lines of its records: zstd frames, one a record, or plain lines.

Each frame has a checksum and is written by one write(2): what was cut or altered is found
before a byte of it is looked at. Plain lines, as `zstd -d` makes of a recording, have none.
"""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import zstandard

from kernel_delay.errors import InputError
from kernel_delay.host.private_file import PrivateFile

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""RFC 8878, section 3.1.1."""

PLAIN_SUFFIX = ".jsonl"

MOST_RECORD_BYTES = 1 << 24
"""No record of ours is larger, and no more of one that is not ours is ever in memory."""

FREE_BYTES = 8 << 20
MOST_RATIO = 256
"""What a file may be decompressed to: FREE_BYTES, and MOST_RATIO bytes for each byte read of it.

Ours come to 20 mostly, and to 200 where 20,000 threads slept all the time. One of 30 KB that was
made for it would come to gigabytes.
"""

# A block of three bytes may stand for 128 KiB of text, so a piece of this size for 40 MiB.
_PIECE_BYTES = 1 << 10

_LEVEL = 3


class CutError(Exception):
    """The file ends within a record."""


class _Frames(PrivateFile):
    """What is written at once is a frame."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)

    def write(self, data: bytes) -> None:
        super().write(self._compressor.compress(data))


def create(path: Path) -> PrivateFile:
    """Create or open `path`, as plain lines if its name ends so. Raises OutputError."""
    return PrivateFile(path) if path.suffix == PLAIN_SUFFIX else _Frames(path)


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, each whole and with its end.

    Raises CutError where the file ends within one, and InputError where it is damaged.
    """
    start = file.read(len(ZSTD_MAGIC))
    if start == ZSTD_MAGIC:
        for frame in _frames(file, start):
            yield from BytesIO(frame)
    elif start:
        yield from _plain(file, start)


def _plain(file: BinaryIO, start: bytes) -> Iterator[bytes]:
    while line := start + file.readline(MOST_RECORD_BYTES):
        start = b""
        if not line.endswith(b"\n"):
            if len(line) >= MOST_RECORD_BYTES:
                raise InputError("a line is too long to be a record")
            raise CutError
        yield line


def _frames(file: BinaryIO, piece: bytes) -> Iterator[bytes]:
    compressed = _Counted(file, len(piece))
    room = FREE_BYTES
    while piece or (piece := compressed.read(_PIECE_BYTES)):
        frame, piece = _frame(compressed, piece, room)
        room -= len(frame)
        if not frame.endswith(b"\n"):
            raise InputError("a frame does not end with a record")
        yield frame


class _Counted:
    """A file, and how many bytes were read of it."""

    def __init__(self, file: BinaryIO, count: int) -> None:
        self._file, self.count = file, count

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.count += len(data)
        return data


def _frame(file: _Counted, piece: bytes, room: int) -> tuple[bytes, bytes]:
    """The frame that begins with `piece`, its checksum verified, and what was read behind it.

    It may have `room` bytes, and MOST_RATIO for each that was read.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=MOST_RECORD_BYTES).decompressobj()
    frame = bytearray()
    while True:
        try:
            frame += decompressor.decompress(piece)
        except zstandard.ZstdError as error:
            raise InputError(str(error)) from error
        if len(frame) > MOST_RECORD_BYTES:
            raise InputError("a frame is too large to be a record: give the output of `zstd -d`")
        if len(frame) > room + MOST_RATIO * file.count:
            raise InputError(
                f"it expands to more than {MOST_RATIO} times its size, as no recording does: give"
                " the output of `zstd -d`"
            )
        if decompressor.eof:
            return bytes(frame), decompressor.unused_data
        piece = file.read(_PIECE_BYTES)
        if not piece:
            raise CutError
