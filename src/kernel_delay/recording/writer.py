"""Writes a recording, record by record, while it is measured."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

import msgspec
from msgspec import structs

from kernel_delay.errors import OutputError, TimeoutExpiredError
from kernel_delay.model import (
    EndedBy,
    RecordingEnd,
    RecordingHeader,
    RecordingTrailer,
    Sample,
    SkippedWindow,
)
from kernel_delay.recording import frames
from kernel_delay.recording.records import (
    EVENTS_AT_ONCE,
    Continuation,
    Events,
    Note,
    Record,
    Remaining,
    SampleRecord,
    Skipped,
)

BATCH_BYTES = 1 << 20
"""Of threads or of stacks in one record: far below the most that is read of one."""

_T = TypeVar("_T")
_R = TypeVar("_R", bound=msgspec.Struct)


class RecordingWriter:
    """Writes each record as it comes, so that a kill loses the one at hand at most.

    Used as a context manager, it closes the file. The recording is whole once finish() was
    called, as it is where an error leaves: the recording ended with that. Where nothing was
    measured until then the file is removed, and one that was there before is left as it was.
    """

    def __init__(self, path: Path, header: RecordingHeader, *, redact: bool = False) -> None:
        """Create or replace `path` as a PrivateFile; write what redacted() leaves with `redact`.

        Raises OutputError.
        """
        self._redact = redact
        self._encoder = msgspec.json.Encoder()
        self._samples = self._events = 0
        self._finished = False
        self._last_ended: EndedBy | None = None
        self._file = frames.create(path)
        # Nothing is written in place of another recording until something was measured.
        self._held: list[bytes] | None = [] if self._file.replaces else None
        try:
            self._write(header)
        except OutputError:
            self._file.discard()
            raise

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(self, kind: object, exc: BaseException | None, traceback: object) -> None:
        """Close the file."""
        if exc is not None and not self._samples and not self._events:
            self._file.discard()
            return
        try:
            # After a write that failed there is half a record, which nothing can follow.
            if exc is not None and not isinstance(exc, OutputError) and not self._finished:
                self.finish("timeout" if isinstance(exc, TimeoutExpiredError) else "error")
        finally:
            self._file.close()

    def note(self, text: str) -> None:
        """Append a message that the user sees. Raises OutputError, as all that append do."""
        self._write(Note(text))

    def sample(self, sample: Sample) -> None:
        """Append a Sample, in several records if there is much in it."""
        if self._redact:
            sample = _redacted(sample)
        threads, stacks = self._batches(sample.threads), self._batches(sample.stacks)
        first_threads, first_stacks = next(threads, ()), next(stacks, ())
        events, first_events = _split(sample.syscall_events)
        slices, first_slices = _split(sample.timeline)
        first = structs.replace(
            sample,
            threads=first_threads,
            stacks=first_stacks,
            syscall_events=first_events,
            timeline=first_slices,
        )
        remaining = Remaining(
            threads=len(sample.threads) - len(first_threads),
            stacks=len(sample.stacks) - len(first_stacks),
            syscall_events=len(sample.syscall_events or ()) - len(first_events or ()),
            timeline=len(sample.timeline or ()) - len(first_slices or ()),
        )
        self._write(SampleRecord(first, remaining))
        for further_threads in threads:
            self._write(Continuation(threads=further_threads))
        for further_stacks in stacks:
            self._write(Continuation(stacks=further_stacks))
        while further_events := tuple(islice(events, EVENTS_AT_ONCE)):
            self._write(Continuation(syscall_events=further_events))
        while further_slices := tuple(islice(slices, EVENTS_AT_ONCE)):
            self._write(Continuation(timeline=further_slices))
        self._samples += 1
        self._last_ended = sample.window.ended_by

    def skipped(self, skipped: SkippedWindow) -> None:
        """Append a window that is no sample."""
        self._write(Skipped(skipped.window))

    def events(self, events: Events) -> None:
        """Append what a monitor measured: one record, so the caller passes few enough."""
        self._write(events)
        self._events += len(events.measured())

    def finish_samples(self, *, interrupted: bool) -> bool:
        """Append the trailer behind Samples: `interrupted`, a signal kept others from following.

        Returns False where it came before the first of them, and a recording that was there before
        is left as it was.
        """
        match self._last_ended:
            case "interrupt" | "exit" | "timeout" as reason:
                self.finish(reason)
            case _ if interrupted and self._held is not None:
                return False
            case _:
                self.finish("interrupt" if interrupted else "done")
        return True

    def finish(self, ended: RecordingEnd, lost: Mapping[str, int] | None = None) -> None:
        """Append the trailer: the recording is whole."""
        self._write(
            RecordingTrailer(ended, samples=self._samples, events=self._events, lost=lost or {})
        )
        self._finished = True

    def _batches(self, items: Iterable[_T]) -> Iterator[tuple[_T, ...]]:
        """The items, as many at a time as make BATCH_BYTES or somewhat more."""
        batch: list[_T] = []
        size = 0
        for item in items:
            batch.append(item)
            size += len(self._encoder.encode(item))
            if size >= BATCH_BYTES:
                yield tuple(batch)
                batch, size = [], 0
        if batch:
            yield tuple(batch)

    def _write(self, record: Record) -> None:
        # A Sample is redacted as a whole.
        if self._redact and not isinstance(record, SampleRecord | Continuation):
            record = _redacted(record)
        line = self._encoder.encode(record) + b"\n"
        if self._held is not None and isinstance(record, RecordingHeader | Note):
            self._held.append(line)
            return
        held, self._held = self._held or [], None
        for each in (*held, line):
            self._file.write(each)


def _redacted(record: _R) -> _R:
    from kernel_delay.recording.redaction import redacted

    return redacted(record)


def _split(items: Sequence[_T] | None) -> tuple[Iterator[_T], tuple[_T, ...] | None]:
    """The first of a Sample's events or slices, and what yields the others.

    Each is made when it is looked at.
    """
    if items is None:
        return iter(()), None
    remaining = iter(items)
    return remaining, tuple(islice(remaining, EVENTS_AT_ONCE))
