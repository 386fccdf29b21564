"""A Sample from its records."""

from collections.abc import Sequence

from msgspec import structs

from kernel_delay.errors import InputError
from kernel_delay.model import Sample, SkippedWindow, StackFrame, Thread
from kernel_delay.recording.packed import PackedEvents, PackedSlices
from kernel_delay.recording.records import (
    Content,
    Continuation,
    Events,
    Read,
    Remaining,
    SampleRecord,
    Skipped,
)
from kernel_delay.recording.validation import check_events, check_sample, check_window

MOST_EVENTS = 1 << 24
MOST_EMPTY_STACKS = 1 << 16
MOST_OTHER_BYTES = 1 << 28
"""Of one sample: so much of it is kept in memory, and no more."""


class SampleAssembly:
    """Takes record after record; gives back each Sample when the last of it has come."""

    def __init__(self) -> None:
        """Start between two samples."""
        self._parts: _Parts | None = None

    def take(self, record: Content | Events, size: int) -> Read | None:
        """Take the next record, a line of `size` bytes; return what is whole with it.

        Raises InputError where it doesn't follow, holds what can't be, or makes a sample too large.
        """
        if isinstance(record, Continuation):
            if self._parts is None:
                raise InputError("it continues a sample that is missing")
            self._parts.add(record, size)
        else:
            self.end()
            if isinstance(record, Skipped):
                check_window(record.window)
                return SkippedWindow(record.window)
            if not isinstance(record, SampleRecord):
                check_events(record)
                return record
            self._parts = _Parts(record, size)
        sample = self._parts.whole()
        if sample is not None:
            self._parts = None
            check_sample(sample)
        return sample

    def end(self) -> None:
        """Raise InputError within a sample."""
        if self._parts is not None:
            raise InputError("the sample before it is incomplete")


class _Parts:
    """What has come of a sample."""

    def __init__(self, head: SampleRecord, size: int) -> None:
        self._head = head
        self._threads: list[Thread] = []
        self._stacks: list[tuple[StackFrame, ...]] = []
        self._events = PackedEvents()
        self._slices = PackedSlices()
        self._bytes = 0
        self._empty_stacks = _empty(head.sample.stacks)
        first = Continuation(
            syscall_events=tuple(head.sample.syscall_events or ()),
            timeline=tuple(head.sample.timeline or ()),
        )
        self.add(first, size)
        self._first_events, self._first_slices = len(self._events), len(self._slices)

    def add(self, continuation: Continuation, size: int) -> None:
        if not (continuation.syscall_events or continuation.timeline):
            self._bytes += size
        # Three bytes each: of them there would be more than of all else.
        self._empty_stacks += _empty(continuation.stacks)
        if self._empty_stacks > MOST_EMPTY_STACKS:
            raise InputError("a sample has too many stacks without a frame")
        self._threads.extend(continuation.threads)
        self._stacks.extend(continuation.stacks)
        try:
            self._events.extend(continuation.syscall_events)
        except OverflowError as error:
            raise InputError(f"an event that can't be: {error}") from error
        try:
            self._slices.extend(continuation.timeline)
        except OverflowError as error:
            raise InputError(f"a slice that can't be: {error}") from error
        most = max(len(self._events), len(self._slices))
        if self._bytes > MOST_OTHER_BYTES or most > MOST_EVENTS:
            raise InputError("a sample is too large")

    def whole(self) -> Sample | None:
        """The sample, if all of it is there."""
        come = Remaining(
            threads=len(self._threads),
            stacks=len(self._stacks),
            syscall_events=len(self._events) - self._first_events,
            timeline=len(self._slices) - self._first_slices,
        )
        if come != self._head.remaining:
            return None
        sample = self._head.sample
        return structs.replace(
            sample,
            threads=(*sample.threads, *self._threads),
            stacks=(*sample.stacks, *self._stacks),
            syscall_events=None if sample.syscall_events is None else self._events,
            timeline=None if sample.timeline is None else self._slices,
        )


def _empty(stacks: Sequence[tuple[StackFrame, ...]]) -> int:
    return sum(not stack for stack in stacks)
