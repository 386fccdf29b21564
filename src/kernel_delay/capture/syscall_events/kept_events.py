"""A window's syscall events as they were kept: small, and made SyscallEvents when looked at."""

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from kernel_delay.capture.syscall_events._events import ffi, lib
from kernel_delay.host.syscalls import syscall
from kernel_delay.loader._records import lib as records
from kernel_delay.model import SyscallEvent

if TYPE_CHECKING:
    from kernel_delay.capture.syscall_events._events import KeptEventPointer
    from kernel_delay.cdata import Flat

Place = int | None
"""Where a stack is among a Sample's."""


Row = tuple[int, int, int, int, int, int, int, int]
"""The fields of a struct kept_event."""


class KeptEvents(Sequence[SyscallEvent]):
    """Events of 48 bytes each. A million SyscallEvents would take eight times that."""

    def __init__(
        self,
        events: "KeptEventPointer",
        count: int,
        kernel_places: Sequence[Place],
        user_places: Sequence[Place],
    ) -> None:
        """Take over `count` struct kept_event, whose stacks are at those places by index."""
        self._events = ffi.buffer(events, count * ffi.sizeof("struct kept_event"))
        self._count = count
        self._kernel_places = kernel_places
        self._user_places = user_places
        self._format = struct.Struct(_struct_format())

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> SyscallEvent: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SyscallEvent, ...]: ...

    def __getitem__(
        self, index: "int | slice[int, int, int]"
    ) -> SyscallEvent | tuple[SyscallEvent, ...]:
        """Return an event, or several."""
        if not isinstance(index, int):
            return tuple(self[at] for at in range(*index.indices(self._count)))
        at = range(self._count)[index] * self._format.size
        return next(self._made(self._events[at : at + self._format.size]))

    def __iter__(self) -> Iterator[SyscallEvent]:
        """Yield all events."""
        return self._made(self._events)

    def _made(self, events: "Flat | bytes") -> Iterator[SyscallEvent]:
        kernel_places, user_places, none = self._kernel_places, self._user_places, lib.NO_STACK
        compat = lib.COMPAT_CALL
        for entry_ns, exit_ns, off_cpu_ns, ret, number, tid, kernel, user in self._rows(events):
            call = syscall(number, compat=tid >= compat)
            yield SyscallEvent(
                tid & ~compat,
                number,
                call.name,
                entry_ns,
                exit_ns,
                ret,
                None if kernel == none else kernel_places[kernel],
                None if user == none else user_places[user],
                call.abi,
                None if off_cpu_ns == records.OFF_CPU_UNKNOWN else off_cpu_ns,
            )

    def _rows(self, events: "Flat | bytes") -> Iterator[Row]:
        # What a format stands for is not in the types of module struct.
        return self._format.iter_unpack(events)  # type: ignore[misc]


def _struct_format() -> str:
    """Return struct kept_event in the terms of Python's struct module, as cffi knows it."""
    codes = {"uint64_t": "Q", "int64_t": "q", "uint32_t": "I", "int32_t": "i"}
    return "".join(codes[field.type.cname] for _, field in ffi.typeof("struct kept_event").fields)
