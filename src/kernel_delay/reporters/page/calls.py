"""Single system calls for the page: folded by stack, exactly, and the longest one by one."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from kernel_delay.model import Sample, StackFrame, SyscallEvent
from kernel_delay.printable import printable
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
    tid and its name.
    """

    threads: list[tuple[int, str]]
    calls: list[str]
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


class Calls:
    """The calls of Samples, as these come."""

    def __init__(self) -> None:
        """Begin with none."""
        self._threads = Places()
        self._calls = Places()
        self._frames = Places()
        self._stacks = Places()
        self._paths: dict[tuple[int, int, int], tuple[int, int, int, int]] = {}
        self._events: list[tuple[int, ...]] = []
        self._left_out = 0
        self._least_ns = 0

    def add(self, sample: Sample, first_ns: int) -> None:
        """Count a Sample's in; `first_ns` is when the first window began."""
        names = {thread.tid: printable(thread.name) for thread in sample.threads}
        stacks = [self._stacks[self._places(stack)] for stack in sample.stacks]
        for event in sample.syscall_events or ():
            stack = NO_STACK if event.user_stack is None else stacks[event.user_stack]
            thread = self._threads[event.tid, names.get(event.tid, str(event.tid))]
            self._add(event, (thread, self._calls[call_name(event)], stack), first_ns)

    def _add(self, event: SyscallEvent, path: tuple[int, int, int], first_ns: int) -> None:
        length_ns = event.exit_ns - event.entry_ns
        count, ns, off_ns, unknown_ns = self._paths.get(path, (0, 0, 0, 0))
        if event.off_cpu_ns is None:
            unknown_ns += length_ns
        else:
            off_ns += event.off_cpu_ns
        self._paths[path] = count + 1, ns + length_ns, off_ns, unknown_ns
        known_ns = UNKNOWN if event.off_cpu_ns is None else event.off_cpu_ns
        if length_ns < self._least_ns:
            self._left_out += 1
            return
        self._events.append((event.entry_ns - first_ns, length_ns, known_ns, *path, event.ret))
        if len(self._events) > 2 * SHOWN_EVENTS:
            self._leave_out()

    def _leave_out(self) -> None:
        """Keep the longest; there will be no use for one that is shorter than all of them."""
        self._events.sort(key=itemgetter(1), reverse=True)
        if len(self._events) > SHOWN_EVENTS:
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
        paths = list(zip(*((*path, *sums) for path, sums in self._paths.items()), strict=True))
        return PageCalls(
            threads=list(self._threads),  # type: ignore[arg-type]
            calls=list(self._calls),  # type: ignore[arg-type]
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
