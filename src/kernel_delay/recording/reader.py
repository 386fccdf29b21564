"""Reads a recording as a stream: what of it is whole, and then why it goes no further."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from operator import or_
from typing import BinaryIO, NoReturn, TypeVar, get_args

import msgspec

from kernel_delay.errors import InputError, NoInputError
from kernel_delay.formatting import printable
from kernel_delay.model import RecordingFormat, RecordingHeader, RecordingTrailer, Sample
from kernel_delay.recording.frames import CutError, lines
from kernel_delay.recording.records import (
    COMMANDS,
    Content,
    Events,
    Read,
    record_type,
    record_types,
)
from kernel_delay.recording.sample_assembly import SampleAssembly
from kernel_delay.recording.validation import check_header, check_trailer
from kernel_delay.register import MONITORS

STDIN = "-"

FORMATS: tuple[str, ...] = get_args(RecordingFormat)

# msgspec leaves bytes that are not UTF-8, and nesting without end, to Python's own errors.
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


_R = TypeVar("_R", bound=msgspec.Struct)


class _Unknown(msgspec.Struct):
    """What a first line may say of a file that is not ours to read."""

    format: str | None = None
    schema: str | None = None


class RecordingReader:
    """A recording that is read once, from its beginning on, in bounded memory.

    `name` is what the user calls it, `trailer` None until the whole of it was read.
    """

    def __init__(self, file: BinaryIO, name: str, *, redact: bool = False) -> None:
        """Read the header. With `redact` all that is read is what redacted() leaves.

        Raises InputError where the file is no recording, is cut before its first record is
        whole, or has a format that this version does not know.
        """
        self.name = name
        self.trailer: RecordingTrailer | None = None
        self._lines = _lines(file, name)
        self._records = self._samples = self._events = 0
        self._redact = redact
        self.header = self._redacted(self._header())

    def read(self) -> Iterator[Read]:
        """Yield what was measured.

        Raises InputError after the last whole record, where something is missing behind it.
        """
        decode = _decoder(self.header.command)
        assembly = SampleAssembly()
        for line in self._following():
            found = None
            with self._naming_damage():
                record = decode(renamed(line, self.header.format))
                if isinstance(record, RecordingTrailer):
                    assembly.end()
                    check_trailer(record)
                else:
                    found = assembly.take(record, len(line))
            if isinstance(record, RecordingTrailer):
                self._end(record)
                return
            if found is not None:
                self._count(found)
                yield self._redacted(found)
        self._fail("was cut: its writer was killed or is still writing, or its disk was full")

    def _redacted(self, record: _R) -> _R:
        if not self._redact:
            return record
        from kernel_delay.recording.redaction import redacted

        return redacted(record)

    def _header(self) -> RecordingHeader:
        try:
            line = next(self._lines, None)
        except CutError:
            self._fail_as_foreign("it is cut within its first record")
        except InputError as error:
            self._fail_as_foreign(str(error))
        if line is None:
            self._fail_as_foreign("it is empty")
        self._records = 1
        try:
            header = msgspec.json.decode(line, type=RecordingHeader)
            check_header(header)
            if header.command not in COMMANDS:
                raise InputError(f"this version has no command {header.command!r}")
        except (*_UNDECODABLE, InputError) as error:
            self._fail_as_foreign(_why_unknown(line) or str(error))
        return header

    def _following(self) -> Iterator[bytes]:
        while True:
            try:
                line = next(self._lines, None)
            except CutError:
                return
            except InputError as error:
                self._fail_as_damaged(str(error))
            if line is None:
                return
            self._records += 1
            yield line

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except (*_UNDECODABLE, InputError) as error:
            self._fail_as_damaged(str(error))

    def _count(self, found: Read) -> None:
        if isinstance(found, Sample):
            self._samples += 1
        elif isinstance(found, Events):
            self._events += len(found.measured())

    def _end(self, trailer: RecordingTrailer) -> None:
        missing = (trailer.samples - self._samples, trailer.events - self._events)
        if missing != (0, 0):
            self._fail_as_damaged("its samples and events are not as many as its trailer says")
        for _ in self._following():
            self._fail_as_damaged("it follows the recording's end")
        self.trailer = trailer

    def _fail_as_foreign(self, reason: str) -> NoReturn:
        raise InputError(f"{self.name!r} is not a recording of kernel-delay: {printable(reason)}")

    def _fail_as_damaged(self, reason: str) -> NoReturn:
        self._fail(f"is damaged: record {self._records}: {printable(reason)}")

    def _fail(self, how: str) -> NoReturn:
        raise InputError(f"{self.name!r} {how}; {self._so_far()} read")

    def _so_far(self) -> str:
        events = self.header.command in MONITORS
        count, what = (self._events, "event") if events else (self._samples, "sample")
        if count == 1:
            return f"the {what} before that was"
        return f"{count:,} {what}s before that were"


class IntactRecords:
    """What is whole of a recording; then `damage` says why that is not all, None if it is."""

    def __init__(self, recording: RecordingReader) -> None:
        """Read nothing yet."""
        self._recording = recording
        self.damage: InputError | None = None

    def __iter__(self) -> Iterator[Read]:
        """Yield what read() yields. Raises NoInputError where the file can't be read on."""
        try:
            yield from self._recording.read()
        except InputError as error:
            self.damage = error


@contextmanager
def open_recording(
    path: str | os.PathLike[str], *, redact: bool = False
) -> Iterator[RecordingReader]:
    """Open a recording for reading; "-" is the standard input. `redact` is a RecordingReader's.

    Raises NoInputError when it can't be opened or read, and what RecordingReader raises.
    """
    name = os.fspath(path)
    if name == STDIN:
        # Python's stdin is None where the shell closed it (<&-).
        if sys.stdin is None:
            raise NoInputError("standard input is closed: there is no recording to read")
        yield RecordingReader(sys.stdin.buffer, "standard input", redact=redact)
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 (what is done within has errors of its own)
    except OSError as error:
        raise _unreadable(name, error) from error
    with file:
        yield RecordingReader(file, name, redact=redact)


def _decoder(command: str) -> Callable[[bytes], Content | Events | RecordingTrailer]:
    """What decodes the records of a recording, of this command first."""
    own = (record_type(command),) if command in MONITORS else ()
    first = _decoder_of(own)

    @cache
    def all_kinds() -> "msgspec.json.Decoder[Content | Events | RecordingTrailer]":
        return _decoder_of(record_types())

    def decode(line: bytes) -> Content | Events | RecordingTrailer:
        try:
            return first.decode(line)
        except msgspec.ValidationError:
            # Of another monitor, or of none.
            return all_kinds().decode(line)

    return decode


def _decoder_of(
    kinds: tuple[type[Events], ...],
) -> "msgspec.json.Decoder[Content | Events | RecordingTrailer]":
    return msgspec.json.Decoder(reduce(or_, (*get_args(Content), *kinds, RecordingTrailer)))


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        yield from lines(file)
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError) -> NoInputError:
    if isinstance(error, IsADirectoryError):
        return NoInputError(f"{name!r} is a folder: give the recordings in it, as {name}/*.kdr")
    return NoInputError(f"can't read {name!r}: {error.strerror}")


def _why_unknown(line: bytes) -> str | None:
    """What a first line says that is another's than ours; None if it says nothing known."""
    try:
        unknown = msgspec.json.decode(line, type=_Unknown)
    except _UNDECODABLE:
        return None
    if unknown.format not in (None, *FORMATS):
        return (
            f"its format is {unknown.format!r}, and this version of kernel-delay reads"
            f" {', '.join(FORMATS)}"
        )
    if unknown.schema is not None and unknown.schema.startswith("kernel-delay/"):
        return "it holds the samples of --json; write with -o what is to be reported from"
    return None


_RENAMED_SINCE_1 = (
    (b'"record":"more"', b'"record":"continuation"'),
    (b'"to_come":', b'"remaining":'),
    (b'"surroundings":', b'"system_state":'),
    (b'"doing":', b'"activity":'),
    (b'"untold":', b'"suppressed":'),
    (b'"schema":"kernel-delay/2"', b'"schema":"kernel-delay/3"'),
)


def renamed(line: bytes, written_as: RecordingFormat) -> bytes:
    """Return a record with the names of the current format.

    JSON escapes quotes within a string, so what is replaced can only be a field.

    Args:
        line: The record as JSON, without spaces between its parts.
        written_as: The format of the recording.
    """
    if written_as == "kernel-delay-recording/1":
        for old, new in _RENAMED_SINCE_1:
            line = line.replace(old, new)
    return line
