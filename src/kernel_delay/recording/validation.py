"""Validation of what a recording holds, whoever wrote that."""

from collections.abc import Collection, Iterator
from string import digits

import msgspec
from msgspec import Struct, structs

from kernel_delay.errors import InputError
from kernel_delay.model import (
    Histogram,
    ProfiledStack,
    RecordingHeader,
    RecordingTrailer,
    Round,
    Sample,
    Slice,
    SyscallEvent,
    Thread,
    Window,
)
from kernel_delay.recording.packed import PackedEvents
from kernel_delay.recording.records import Events, Note

# Of a struct's fields these alone can be below 0: as the kernel has them.
_SIGNED = frozenset({"ret", "nice", "number"})

_MOST_NS = 1 << 63
_MOST_COUNT = 1 << 64
_MOST_OTHERS = (1 << 32) - 1
MOST_BUCKETS = 65
"""Of a histogram: one for 0, and one for each power of two of 64 bits."""

# include/linux/err.h (6.18)
MAX_ERRNO = 4095

_YEARS = range(1900, 9000)


def check_header(header: RecordingHeader) -> None:
    """Raise InputError for figures that no process, machine or clock has."""
    _check_figures(header)


def check_trailer(trailer: RecordingTrailer) -> None:
    """Raise InputError for counts that can't be."""
    for name, value in _integers(trailer):
        _check_figure(name, value, _MOST_COUNT)


def check_sample(sample: Sample) -> None:
    """Raise InputError for a sample that no writer of ours wrote."""
    # The verdict's evidence has figures of any kind.
    figures = structs.replace(sample, syscall_events=None, timeline=None, verdict=())
    if not all(map(_is_within, _pieces(figures))):
        for name, value in _integers(figures):
            if value >= 0 or name not in _SIGNED:
                _check_figure(name, value, _MOST_COUNT)
    check_window(sample.window)
    for thread in sample.threads:
        _check_thread(thread, sample.window)
    stacks = len(sample.stacks)
    events = sample.syscall_events or ()
    if not (isinstance(events, PackedEvents) and events.are_valid(stacks)):
        for event in events:
            _check_event(event, stacks)
    if sample.round is not None:
        _check_round_of(sample, sample.round)
    for slice_ in sample.timeline or ():
        _check_slice(slice_, sample.window)


def check_events(record: Note | Events) -> None:
    """Raise InputError for figures that no event of a monitor has: they are of the kernel's."""
    if isinstance(record, Events):
        _check_figures(record, record.COUNTERS)
        record.check()


def check_window(window: Window) -> None:
    """Raise InputError for a window that can't be."""
    if not window.stop_ns - window.start_ns == window.duration_ns < _MOST_NS:
        raise InputError("the window's length is not that from its start to its stop")
    if not {window.start_time.year, window.collected_time.year} <= set(_YEARS):
        raise InputError("the window's year is out of range")


_THREADS_AT_ONCE = 100


def _pieces(sample: Sample) -> Iterator[object]:
    """The same in pieces: the text of 10,000 threads is 20 MB."""
    yield structs.replace(sample, threads=(), stacks=())
    for items in (sample.threads, sample.stacks):
        for start in range(0, len(items), _THREADS_AT_ONCE):
            yield items[start : start + _THREADS_AT_ONCE]


def _is_within(figures: object) -> bool:
    """Return whether no integer of these can be below 0, unless it may, or above 64 bits.

    As text: there are hundreds in a thread's account, and to look at each takes longer than all
    else that is done with a recording. A name with a comma and a minus in it looks like a
    number: then each is looked at.
    """
    text = msgspec.json.encode(figures)
    *before_minus, _ = text.split(b"-")
    below = (part for part in before_minus if part.endswith(_BEFORE_NUMBERS))
    return all(
        part.endswith(_BEFORE_SIGNED) for part in below
    ) and _MOST_DIGITS not in text.translate(_DIGITS)


_BEFORE_NUMBERS = (b":", b",", b"[")
_BEFORE_SIGNED = tuple(b'"%b":' % name.encode() for name in _SIGNED)
_DIGITS = bytes(ord("0") if chr(byte) in digits else byte for byte in range(256))
_MOST_DIGITS = b"0" * len(str(_MOST_COUNT))


def _check_figures(record: Struct, counters: Collection[str] = ()) -> None:
    for name, value in _integers(record):
        _check_figure(name, value, _MOST_COUNT if name in counters else _most(name))


def _check_figure(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise InputError(f"{name} can't be {value}")


def _most(name: str) -> int:
    """The highest value of a field."""
    if name.endswith("_ns"):
        return _MOST_NS
    return MAX_ERRNO if name == "error" else _MOST_OTHERS


def _check_thread(thread: Thread, window: Window) -> None:
    for intervals in (thread.long_poll, thread.run, thread.ready, thread.stopped):
        if intervals is not None:
            _check_histogram(intervals.histogram)
            if not intervals.count:
                raise InputError("intervals have a count of 0")
    for call in thread.syscalls:
        _check_histogram(call.histogram)
    time = thread.time
    if time is None:
        return
    if sum(structs.astuple(time)) != thread.threads * window.duration_ns:
        raise InputError(f"the account of thread {thread.tid} is not its window's length")


def _check_histogram(histogram: Histogram) -> None:
    # A bound is a power of two: that of the millionth takes minutes to print.
    if len(histogram) > MOST_BUCKETS:
        raise InputError(f"a histogram has more than {MOST_BUCKETS} buckets")


def _check_round_of(sample: Sample, round_: Round) -> None:
    if not sample.threads:
        raise InputError("a round has no thread")
    for profiled in round_.profile:
        _check_stacks(profiled, "a profile's", len(sample.stacks))


def _check_stacks(found: SyscallEvent | ProfiledStack, whose: str, stacks: int) -> None:
    for stack in (found.kernel_stack, found.user_stack):
        if stack is not None and stack >= stacks:
            raise InputError(f"{whose} stack does not exist")


def _check_event(event: SyscallEvent, stacks: int) -> None:
    _check_stacks(event, "an event's", stacks)
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
