"""A Sample from its records; and whether figures can be, whoever wrote them."""

import re
from collections.abc import Iterator

from msgspec import Struct, structs

from kernel_delay.errors import InputError
from kernel_delay.model import (
    Sample,
    SkippedWindow,
    Slice,
    StackFrame,
    SyscallEvent,
    Thread,
    Window,
)
from kernel_delay.ovs.revalidator import RevalidatorRound
from kernel_delay.recording.packed_events import PackedEvents
from kernel_delay.recording.packed_slices import PackedSlices
from kernel_delay.recording.records import (
    Content,
    Events,
    FlowEvents,
    More,
    Note,
    Read,
    RevalidatorRounds,
    SampleRecord,
    Skipped,
    ToCome,
)

MOST_EVENTS = 1 << 24
MOST_OTHER_BYTES = 1 << 28
"""Of one sample: so much of it is kept in memory, and no more."""

# Of a struct's fields these alone can be below 0: as the kernel has them.
_SIGNED = frozenset({"ret", "nice", "number"})

_MOST_NS = 1 << 63
_MOST_COUNT = 1 << 64
_MOST_OTHERS = (1 << 32) - 1
_UFID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COUNTERS = frozenset({"n_packets", "n_bytes", "flows_before"})
# include/linux/err.h (6.18)
MAX_ERRNO = 4095

_YEARS = range(1900, 9000)


class SampleAssembly:
    """Takes record after record; gives back each Sample when the last of it has come."""

    def __init__(self) -> None:
        """Start between two samples."""
        self._parts: _Parts | None = None

    def take(self, record: Content, size: int) -> Read | None:
        """Take the next record, a line of `size` bytes; return what is whole with it.

        Raises InputError where it doesn't follow, holds what can't be, or makes a sample too large.
        """
        if isinstance(record, More):
            if self._parts is None:
                raise InputError("it is of a sample that is not there")
            self._parts.add(record, size)
        else:
            self.end()
            if isinstance(record, Skipped):
                _check_window(record.window)
                return SkippedWindow(record.window)
            if not isinstance(record, SampleRecord):
                _check_events(record)
                return record
            self._parts = _Parts(record, size)
        sample = self._parts.whole()
        if sample is not None:
            self._parts = None
            _check(sample)
        return sample

    def end(self) -> None:
        """Raise InputError within a sample."""
        if self._parts is not None:
            raise InputError("the sample before it is not whole")


class _Parts:
    """What has come of a sample."""

    def __init__(self, head: SampleRecord, size: int) -> None:
        self._head = head
        self._threads: list[Thread] = []
        self._stacks: list[tuple[StackFrame, ...]] = []
        self._events = PackedEvents()
        self._slices = PackedSlices()
        self._bytes = 0
        first = More(
            syscall_events=tuple(head.sample.syscall_events or ()),
            timeline=tuple(head.sample.timeline or ()),
        )
        self.add(first, size)
        self._first_events, self._first_slices = len(self._events), len(self._slices)

    def add(self, more: More, size: int) -> None:
        if not (more.syscall_events or more.timeline):
            self._bytes += size
        self._threads.extend(more.threads)
        self._stacks.extend(more.stacks)
        try:
            self._events.extend(more.syscall_events)
        except OverflowError as error:
            raise InputError(f"an event that can't be: {error}") from error
        try:
            self._slices.extend(more.timeline)
        except OverflowError as error:
            raise InputError(f"a slice that can't be: {error}") from error
        most = max(len(self._events), len(self._slices))
        if self._bytes > MOST_OTHER_BYTES or most > MOST_EVENTS:
            raise InputError("a sample is too large")

    def whole(self) -> Sample | None:
        """The sample, if all of it is there."""
        come = ToCome(
            threads=len(self._threads),
            stacks=len(self._stacks),
            syscall_events=len(self._events) - self._first_events,
            timeline=len(self._slices) - self._first_slices,
        )
        if come != self._head.to_come:
            return None
        sample = self._head.sample
        return structs.replace(
            sample,
            threads=(*sample.threads, *self._threads),
            stacks=(*sample.stacks, *self._stacks),
            syscall_events=None if sample.syscall_events is None else self._events,
            timeline=None if sample.timeline is None else self._slices,
        )


def _check(sample: Sample) -> None:
    """Raise InputError for a sample that no writer of ours wrote."""
    events = sample.syscall_events or ()
    # The verdict's evidence has figures of any kind.
    for name, value in _integers(
        structs.replace(sample, syscall_events=None, timeline=None, verdict=())
    ):
        if value > _MOST_COUNT or (value < 0 and name not in _SIGNED):
            raise InputError(f"{name} can't be {value}")
    _check_window(sample.window)
    for thread in sample.threads:
        _check_thread(thread, sample.window)
    stacks = len(sample.stacks)
    for event in events:
        _check_event(event, stacks)
    for slice_ in sample.timeline or ():
        _check_slice(slice_, sample.window)


def _check_events(record: Note | Events) -> None:
    """Raise InputError for figures that no event of Open vSwitch has: they are of the kernel's."""
    for name, value in _integers(record):
        most = _most(name)
        if not 0 <= value <= most:
            raise InputError(f"{name} can't be {value}")
    if isinstance(record, RevalidatorRounds):
        for found in record.rounds:
            _check_round(found)
    if isinstance(record, FlowEvents):
        for event in record.events:
            if not _UFID.fullmatch(event.ufid):
                raise InputError("a flow's ufid can't be that")


def _most(name: str) -> int:
    """The highest value of an event's field."""
    if name.endswith("_ns"):
        return _MOST_NS
    if name in _COUNTERS:
        return _MOST_COUNT
    return MAX_ERRNO if name == "error" else _MOST_OTHERS


def _check_round(found: RevalidatorRound) -> None:
    if not (found.previous_stop_ns or 0) <= found.start_ns <= found.stop_ns:
        raise InputError("a round ended before it began")
    time = found.leader_time
    if time is not None and sum(structs.astuple(time)) != found.duration_ns:
        raise InputError("the leader's time is not its round's length")


def _check_window(window: Window) -> None:
    if not window.stop_ns - window.start_ns == window.duration_ns < _MOST_NS:
        raise InputError("the window's length is not that from its start to its stop")
    if not {window.start_time.year, window.collected_time.year} <= set(_YEARS):
        raise InputError("the window's time of day can't be")


def _check_thread(thread: Thread, window: Window) -> None:
    for intervals in (thread.long_poll, thread.run, thread.ready, thread.stopped):
        if intervals is not None and not intervals.count:
            raise InputError("intervals of which there is none")
    time = thread.time
    if time is None:
        return
    if sum(structs.astuple(time)) != thread.threads * window.duration_ns:
        raise InputError(f"the account of thread {thread.tid} is not its window's length")


def _check_event(event: SyscallEvent, stacks: int) -> None:
    for stack in (event.kernel_stack, event.user_stack):
        if stack is not None and stack >= stacks:
            raise InputError("an event's stack is not there")
    if not 0 <= event.entry_ns <= event.exit_ns:
        raise InputError("an event ended before it began")
    if event.off_cpu_ns is not None and event.off_cpu_ns > event.exit_ns - event.entry_ns:
        raise InputError("an event was off the CPUs for longer than it took")


def _check_slice(slice_: Slice, window: Window) -> None:
    if not window.start_ns <= slice_.start_ns < slice_.stop_ns <= window.stop_ns:
        raise InputError("a slice is not within its window")


def _integers(value: object, name: str = "") -> Iterator[tuple[str, int]]:
    """All integers within a value, with the name of the field that they are in."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield name, value
    elif isinstance(value, Struct):
        for field in value.__struct_fields__:
            yield from _integers(getattr(value, field), field)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _integers(item, name)
    elif isinstance(value, dict):
        for key in value:
            yield from _integers(value[key], str(key))
