"""A sample's syscall events as they were read: small, and made SyscallEvents when looked at."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from kernel_delay.model import Abi, SyscallEvent

_NO_STACK = _UNKNOWN = -1

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
        """Append events; OverflowError for a figure that no event has."""
        for event in events:
            call = (event.number, event.name, event.abi)
            self._entries.append(event.entry_ns)
            self._exits.append(event.exit_ns)
            self._results.append(event.ret)
            self._off_cpu.append(_length(event.off_cpu_ns))
            self._tids.append(event.tid)
            self._calls.append(self._numbers.setdefault(call, len(self._numbers)))
            self._kernel_stacks.append(_place(event.kernel_stack))
            self._user_stacks.append(_place(event.user_stack))

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


def _length(ns: int | None) -> int:
    if ns is None:
        return _UNKNOWN
    if ns < 0:
        raise OverflowError("a length is below 0")
    return ns


def _place(stack: int | None) -> int:
    if stack is None:
        return _NO_STACK
    if stack < 0:
        raise OverflowError("a stack's place is below 0")
    return stack
