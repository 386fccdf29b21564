"""A sample's syscall events and slices as they were read: small, and made when looked at."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import le, sub
from typing import overload

from kernel_delay.model import Abi, Slice, SliceKind, SliceMode, SyscallEvent

_NO_STACK = _UNKNOWN = -1

_AT_ONCE = 1000

_Call = tuple[int, str | None, Abi | None]


class PackedEvents(Sequence[SyscallEvent]):
    """Events of 48 bytes each. A million SyscallEvents would take eight times that."""

    def __init__(self) -> None:
        """Have none."""
        self._entries, self._exits, self._results = array("q"), array("q"), array("q")
        self._off_cpu = array("q")
        self._tids, self._calls = array("I"), array("I")
        self._kernel_stacks, self._user_stacks = array("i"), array("i")
        self._numbers: dict[_Call, int] = {}

    def extend(self, events: Iterable[SyscallEvent]) -> None:
        """Append events; OverflowError for a figure that no event has. Then this is of no use."""
        remaining = iter(events)
        while batch := tuple(islice(remaining, _AT_ONCE)):
            self._extend(batch)

    def _extend(self, events: Sequence[SyscallEvent]) -> None:
        # A column at a time: event by event takes three times as long.
        self._entries.extend([event.entry_ns for event in events])
        self._exits.extend([event.exit_ns for event in events])
        self._results.extend([event.ret for event in events])
        self._off_cpu.extend(_with_unknown([event.off_cpu_ns for event in events], "a length"))
        self._tids.extend([event.tid for event in events])
        numbers = self._numbers
        calls = [(event.number, event.name, event.abi) for event in events]
        self._calls.extend([numbers.setdefault(call, len(numbers)) for call in calls])
        kernel = [event.kernel_stack for event in events]
        self._kernel_stacks.extend(_with_unknown(kernel, "a stack's place"))
        user = [event.user_stack for event in events]
        self._user_stacks.extend(_with_unknown(user, "a stack's place"))

    def are_valid(self, stacks: int) -> bool:
        """Return whether each ended after it began, was no longer off CPUs, and has its stacks."""
        lengths = map(sub, self._exits, self._entries)
        return (
            min(self._entries, default=0) >= 0
            and all(map(le, self._entries, self._exits))
            and all(map(le, self._off_cpu, lengths))
            and max(self._kernel_stacks, default=_NO_STACK) < stacks
            and max(self._user_stacks, default=_NO_STACK) < stacks
        )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> SyscallEvent: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SyscallEvent, ...]: ...

    def __getitem__(self, index: int | slice) -> SyscallEvent | tuple[SyscallEvent, ...]:
        """Return an event, or several."""
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        return next(self._made(iter((range(len(self))[index],))))

    def __iter__(self) -> Iterator[SyscallEvent]:
        """Yield all events."""
        return self._made(iter(range(len(self))))

    def _made(self, places: Iterator[int]) -> Iterator[SyscallEvent]:
        calls = tuple(self._numbers)
        for at in places:
            number, name, abi = calls[self._calls[at]]
            kernel, user = self._kernel_stacks[at], self._user_stacks[at]
            off_cpu_ns = self._off_cpu[at]
            yield SyscallEvent(
                self._tids[at],
                number,
                name,
                self._entries[at],
                self._exits[at],
                self._results[at],
                None if kernel == _NO_STACK else kernel,
                None if user == _NO_STACK else user,
                abi,
                None if off_cpu_ns == _UNKNOWN else off_cpu_ns,
            )


def _with_unknown(figures: list[int | None], what: str) -> list[int]:
    """Return them with -1 for what is not known."""
    if min(filter(None, figures), default=0) < 0:
        raise OverflowError(f"{what} is below 0")
    return [_UNKNOWN if figure is None else figure for figure in figures]


_NO_CPU = -1

_What = tuple[SliceKind, SliceMode, str | None]


class PackedSlices(Sequence[Slice]):
    """Slices of 28 bytes each. A million of model.Slice would take five times that."""

    def __init__(self) -> None:
        """Have none."""
        self._starts, self._stops = array("q"), array("q")
        self._tids, self._whats, self._cpus = array("I"), array("I"), array("i")
        self._numbers: dict[_What, int] = {}

    def extend(self, slices: Iterable[Slice]) -> None:
        """Append slices; OverflowError for a figure that none has."""
        numbers = self._numbers
        for each in slices:
            if each.cpu is not None and each.cpu < 0:
                raise OverflowError("a CPU's number is below 0")
            what = (each.kind, each.mode, each.name)
            self._starts.append(each.start_ns)
            self._stops.append(each.stop_ns)
            self._tids.append(each.tid)
            self._cpus.append(_NO_CPU if each.cpu is None else each.cpu)
            self._whats.append(numbers.setdefault(what, len(numbers)))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Slice: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Slice, ...]: ...

    def __getitem__(self, index: int | slice) -> Slice | tuple[Slice, ...]:
        """Return a slice, or several."""
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        return next(self._made(iter((range(len(self))[index],))))

    def __iter__(self) -> Iterator[Slice]:
        """Yield all slices."""
        return self._made(iter(range(len(self))))

    def _made(self, places: Iterator[int]) -> Iterator[Slice]:
        whats = tuple(self._numbers)
        for at in places:
            kind, mode, name = whats[self._whats[at]]
            cpu = self._cpus[at]
            yield Slice(
                self._tids[at],
                kind,
                self._starts[at],
                self._stops[at],
                mode,
                name,
                None if cpu == _NO_CPU else cpu,
            )
