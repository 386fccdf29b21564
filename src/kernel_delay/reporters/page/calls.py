"""Single system calls for the page: folded by stack, exactly, and the longest one by one."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.host.kernel_names import POLLS
from kernel_delay.model import Sample, StackFrame
from kernel_delay.reporters.tables import call_name

SHOWN_EVENTS = 200_000
"""One by one; a browser draws as many in a second. Flame graphs are of all."""

NO_STACK = UNKNOWN = -1


class Paths(Struct, frozen=True):
    """Calls that were made from the same place, by columns: an item of each is one place.

    `stacks` has -1 where there is none. `ns` is all time in the `counts` calls, `off_cpu_ns` how
    much of it was off the CPUs, and `unknown_ns` the time in calls of which that is not known.
    """

    threads: list[int]
    calls: list[int]
    stacks: list[int]
    counts: list[int]
    ns: list[int]
    off_cpu_ns: list[int]
    unknown_ns: list[int]


class Events(Struct, frozen=True):
    """Calls by columns, in the order of `since_ns`, which is from the first window's start.

    `off_cpu_ns` is -1 where it is not known.
    """

    threads: list[int]
    calls: list[int]
    stacks: list[int]
    since_ns: list[int]
    lengths_ns: list[int]
    off_cpu_ns: list[int]
    returned: list[int]
    left_out: int


class PageCalls(Struct, frozen=True):
    """Single calls. A frame is its name and its object; a stack's are places in `frames`.

    They begin with the outermost. Threads and calls are places in their lists: a thread is its
    tid and its name. `polls` are those of the calls that wait for whatever comes next.
    """

    threads: list[tuple[int, str]]
    calls: list[str]
    polls: list[int]
    frames: list[tuple[str, str]]
    stacks: list[list[int]]
    paths: Paths
    events: Events


def _columns(events: Sequence[tuple[int, ...]], left_out: int) -> Events:
    columns = [list(column) for column in zip(*events, strict=True)] or [[] for _ in range(7)]
    since_ns, lengths_ns, off_cpu_ns, threads, calls, stacks, returned = columns
    return Events(threads, calls, stacks, since_ns, lengths_ns, off_cpu_ns, returned, left_out)


class Places(dict[object, int]):
    """Numbers from 0 on, one for each thing asked for."""

    def __missing__(self, key: object) -> int:
        """Number another."""
        self[key] = len(self)
        return self[key]


class _Path:
    """Calls of one thread from one place in the program: what Paths has of them."""

    __slots__ = ("count", "ns", "off_cpu_ns", "places", "unknown_ns")

    def __init__(self, places: tuple[int, int, int]) -> None:
        self.places = places
        self.count = self.ns = self.off_cpu_ns = self.unknown_ns = 0

    def row(self) -> tuple[int, ...]:
        return *self.places, self.count, self.ns, self.off_cpu_ns, self.unknown_ns


class Calls:
    """The calls of Samples, as these come."""

    def __init__(self) -> None:
        """Begin with none."""
        self._threads = Places()
        self._calls = Places()
        self._frames = Places()
        self._stacks = Places()
        self._paths: dict[tuple[int, int, int], _Path] = {}
        self._events: list[tuple[int, ...]] = []
        self._left_out = 0
        self._least_ns = 0

    def add(self, sample: Sample, first_ns: int) -> None:
        """Count a Sample's in; `first_ns` is when the first window began."""
        names = {thread.tid: printable(thread.name) for thread in sample.threads}
        stacks = [self._stacks[self._places(stack)] for stack in sample.stacks]
        # Of a million calls most are of few kinds.
        known: dict[object, _Path] = {}
        kept = self._events
        for event in sample.syscall_events or ():
            kind = event.tid, event.number, event.name, event.abi, event.user_stack
            path = known.get(kind)
            if path is None:
                stack = NO_STACK if event.user_stack is None else stacks[event.user_stack]
                thread = self._threads[event.tid, names.get(event.tid, str(event.tid))]
                places = thread, self._calls[call_name(event)], stack
                path = known[kind] = self._paths.setdefault(places, _Path(places))
            length_ns, off_cpu_ns = event.exit_ns - event.entry_ns, event.off_cpu_ns
            path.count += 1
            path.ns += length_ns
            if off_cpu_ns is None:
                path.unknown_ns += length_ns
                off_cpu_ns = UNKNOWN
            else:
                path.off_cpu_ns += off_cpu_ns
            if length_ns < self._least_ns:
                self._left_out += 1
                continue
            kept.append((event.entry_ns - first_ns, length_ns, off_cpu_ns, *path.places, event.ret))
            if len(kept) > 2 * SHOWN_EVENTS:
                self._leave_out()

    def _leave_out(self) -> None:
        """Keep the longest; there will be no use for one that is shorter than all of them."""
        if len(self._events) > SHOWN_EVENTS:
            self._events.sort(key=itemgetter(1), reverse=True)
            self._left_out += len(self._events) - SHOWN_EVENTS
            del self._events[SHOWN_EVENTS:]
            self._least_ns = self._events[-1][1]

    def _places(self, stack: Sequence[StackFrame]) -> tuple[int, ...]:
        """The stack's frames from the outermost on; those without names in one object are one."""
        names = map(_frame, reversed(stack))
        return tuple(
            self._frames[frame]
            for (frame, nameless), run in groupby(names)
            for _ in (run if not nameless else (None,))
        )

    def page(self, *, with_events: bool = True) -> PageCalls | None:
        """What the page has of them; None where there were none."""
        if not self._paths:
            return None
        self._leave_out()
        self._events.sort()
        events = self._events if with_events else []
        paths = zip(*(path.row() for path in self._paths.values()), strict=True)
        return PageCalls(
            threads=list(self._threads),  # type: ignore[arg-type]
            calls=list(self._calls),  # type: ignore[arg-type]
            polls=[place for name, place in self._calls.items() if name in POLLS],
            frames=list(self._frames),  # type: ignore[arg-type]
            stacks=list(self._stacks),  # type: ignore[arg-type]
            paths=Paths(*map(list, paths)),
            events=_columns(events, self._left_out),
        )


def _frame(frame: StackFrame) -> tuple[tuple[str, str], bool]:
    """What a frame is called, where it is, and whether it has no name of its own."""
    base = printable((frame.object or "").rpartition("/")[2]).strip("[]")
    if frame.name is None:
        return (f"[{base or 'unknown'}]", base), True
    inlined = " (inlined)" if frame.inlined else ""
    return (f"{printable(frame.name)}{inlined}", base), False
