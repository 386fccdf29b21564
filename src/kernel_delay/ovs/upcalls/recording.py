"""The events of upcall-cost in a file, to be analysed elsewhere and later.

JSON Lines: first a header that names the format's version, then one event a
line with packets and keys in base64, last an end with the missed events. Only
a file that was cut, by a kill or a full disk, has no end.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Self

import msgspec
from msgspec import Struct

from kernel_delay.errors import InputError, NoInputError, OutputError
from kernel_delay.ovs.upcalls.events import Event
from kernel_delay.printable import printable
from kernel_delay.recording.private_file import PrivateFile

# An event has at most 2048 bytes each of packet and key, in base64; a longer
# line is not ours, and reading it whole could take all memory.
MAX_LINE_LEN = 1 << 16

# msgspec leaves bytes that are not UTF-8, and nesting without end, to Python's own errors.
UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

Schema = Literal["kernel-delay-upcalls/1"]


class Header(Struct, frozen=True, tag="header", tag_field="event"):
    """The file's first line: where the events are from."""

    schema: Schema
    host: str
    kernel: str


class End(Struct, frozen=True, tag="end", tag_field="event"):
    """The file's last line: events that could not be recorded, by their type's tag."""

    missed: dict[str, int]


class Recording(Struct, frozen=True):
    """A file as it was read; `cut` says why it was read only in part, None if whole."""

    host: str
    kernel: str
    events: tuple[Event, ...]
    missed: Mapping[str, int]
    cut: str | None


class RecordingWriter:
    """Writes each event as it comes, so that a kill loses the one at hand at most."""

    def __init__(self, path: Path, host: str, kernel: str) -> None:
        """Create or empty `path` as a PrivateFile. Raises OutputError."""
        self._encoder = msgspec.json.Encoder()
        self._file = PrivateFile(path)
        try:
            self._write(Header("kernel-delay-upcalls/1", host, kernel))
        except OutputError:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        """The writer itself; leaving closes the file, and it is whole if finish() was called."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()

    def write(self, event: Event) -> None:
        """Append one event. Raises OutputError."""
        self._write(event)

    def finish(self, missed: Mapping[str, int]) -> None:
        """Append the end, with the number of missed events by their type's tag."""
        self._write(End(dict(missed)))

    def _write(self, line: Header | Event | End) -> None:
        self._file.write(self._encoder.encode(line) + b"\n")


def read_recording(path: Path) -> Recording:
    """Read a file of RecordingWriter, up to where it was cut.

    Raises NoInputError when it can't be opened, and InputError when it is no
    such file, or one of a version this program does not know.
    """
    name = os.fspath(path)
    try:
        with path.open("rb") as file:
            return _read(file, name)
    except OSError as error:
        raise NoInputError(f"can't read {name!r}: {error.strerror}") from error


def _read(file: BinaryIO, name: str) -> Recording:
    try:
        header = msgspec.json.decode(file.readline(MAX_LINE_LEN), type=Header)
    except UNDECODABLE as error:
        reason = printable(str(error))
        raise InputError(f"{name!r} is not a recording of upcall events: {reason}") from error
    decoder = msgspec.json.Decoder(Event | End)
    events: list[Event] = []
    missed: Mapping[str, int] = {}
    cut: str | None = "it has no end: its writer was stopped, or the file was cut"
    for number, line in enumerate(_lines(file), start=2):
        try:
            found = decoder.decode(line)
        except UNDECODABLE as error:
            whole = line.endswith(b"\n")
            how = f"is damaged: {printable(str(error))}" if whole else "is cut in its middle"
            cut = f"line {number} {how}"
            break
        if isinstance(found, End):
            missed, cut = found.missed, None
            break
        events.append(found)
    return Recording(header.host, header.kernel, tuple(events), missed, cut)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_LEN):
        yield line
