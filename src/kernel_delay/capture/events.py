"""Syscall events: kept while a window is open, and named when it is over."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, overload

from msgspec import Struct

from kernel_delay.capture._events import ffi, lib
from kernel_delay.capture.plan import EventPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.stacks import StackNamer
from kernel_delay.errors import UnavailableError
from kernel_delay.model import StackFrame, SyscallEvent
from kernel_delay.syscalls import syscall_name

# Called with how many stacks are named, and of how many.
Progress = Callable[[int, int], None]


class KeptEvents(Sequence[SyscallEvent]):
    """Events as they were kept: 48 bytes each, made a SyscallEvent when looked at."""

    def __init__(self, events: Any, count: int, places: dict[tuple[str, int], int]) -> None:
        """Take over `count` struct kept_event; `places` are their stacks' in the Sample."""
        self._events = events
        self._count = count
        self._places = places

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> SyscallEvent: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SyscallEvent, ...]: ...

    def __getitem__(self, index: int | slice) -> SyscallEvent | tuple[SyscallEvent, ...]:
        """Return an event, or several."""
        if isinstance(index, slice):
            return tuple(self._event(at) for at in range(*index.indices(self._count)))
        return self._event(range(self._count)[index])

    def __iter__(self) -> Iterator[SyscallEvent]:
        """Yield all events."""
        return (self._event(at) for at in range(self._count))

    def _event(self, at: int) -> SyscallEvent:
        kept = self._events[at]
        return SyscallEvent(
            tid=kept.tid,
            number=kept.syscall,
            name=syscall_name(kept.syscall),
            entry_ns=kept.entry_ns,
            exit_ns=kept.exit_ns,
            ret=kept.value,
            kernel_stack=self._places.get(("kernel", kept.kernel_stack)),
            user_stack=self._places.get(("user", kept.user_stack)),
        )


class EventsOfWindow(Struct, frozen=True):
    """A window's events, their stacks, and what was lost of both since the window before."""

    events: Sequence[SyscallEvent]
    stacks: tuple[tuple[StackFrame, ...], ...]
    lost_events: int
    shorter_events: int
    lost_stacks: int


class _Taken(Struct, frozen=True):
    """Events as the store gives them, and the indexes of the stacks that they have."""

    events: Any
    count: int
    kernel_stacks: list[int]
    user_stacks: list[int]
    shorter: int
    unkept_stacks: int


class EventStore:
    """Keeps a process's events from now until close(), within the plan's bounds."""

    def __init__(self, programs: Programs, pid: int, plan: EventPlan, progress: Progress) -> None:
        """Keep what comes through the programs' buffer."""
        self._programs = programs
        self._progress = progress
        self._max_stacks = plan.max_stacks
        self._lost_events = programs.missed_syscall_events()
        self._lost_stacks = programs.missed_stacks()
        with ExitStack() as failing:
            self._namer = StackNamer(pid, plan)
            failing.callback(self._namer.close)
            # The store reads these as long as it lives.
            self._code = ffi.new("struct code_range[]", self._namer.code_ranges())
            self._store = lib.event_store_open(
                programs.events_fd(), plan.max_events, plan.max_stacks, self._code, len(self._code)
            )
            if self._store == ffi.NULL:
                raise UnavailableError("no memory for syscall events: lower --max-events")
            failing.pop_all()

    def close(self) -> None:
        """Stop, and forget what is kept."""
        lib.event_store_close(self._store)
        self._namer.close()

    def take(self, stop_ns: int) -> EventsOfWindow:
        """Return the events of the windows until `stop_ns`, which must be over."""
        self._namer.note()
        taken = self._take(stop_ns)
        places, stacks = self._name_stacks(taken)
        lost_events = self._programs.missed_syscall_events()
        lost_stacks = self._programs.missed_stacks()
        of_window = EventsOfWindow(
            events=KeptEvents(taken.events, taken.count, places),
            stacks=stacks,
            lost_events=lost_events - self._lost_events,
            shorter_events=taken.shorter,
            lost_stacks=lost_stacks - self._lost_stacks + taken.unkept_stacks,
        )
        self._lost_events, self._lost_stacks = lost_events, lost_stacks
        return of_window

    def discard(self, stop_ns: int) -> None:
        """Forget the events of the windows until `stop_ns`, which must be over."""
        self._take(stop_ns)

    def _take(self, stop_ns: int) -> "_Taken":
        events = ffi.new("struct kept_event **")
        kernel_used, user_used = bytearray(self._max_stacks), bytearray(self._max_stacks)
        shorter = ffi.new("uint64_t *")
        unkept_stacks = ffi.new("uint64_t *")
        count = lib.event_store_take(
            self._store,
            stop_ns,
            events,
            ffi.from_buffer(kernel_used),
            ffi.from_buffer(user_used),
            shorter,
            unkept_stacks,
        )
        if count < 0:
            raise MemoryError
        return _Taken(
            events=ffi.gc(events[0], lib.free),
            count=count,
            kernel_stacks=[index for index, used in enumerate(kernel_used) if used],
            user_stacks=[index for index, used in enumerate(user_used) if used],
            shorter=shorter[0],
            unkept_stacks=unkept_stacks[0],
        )

    def _name_stacks(
        self, taken: "_Taken"
    ) -> tuple[dict[tuple[str, int], int], tuple[tuple[StackFrame, ...], ...]]:
        """Return where each stack of the events is among the named ones, and those."""
        places: dict[tuple[str, int], int] = {}
        stacks: dict[tuple[StackFrame, ...], int] = {}
        for index in taken.kernel_stacks:
            frames = self._namer.kernel_frames(self._kernel_addresses(index))
            places["kernel", index] = stacks.setdefault(frames, len(stacks))
        for done, index in enumerate(taken.user_stacks, 1):
            frames = self._namer.user_frames(*self._user_stack(index))
            places["user", index] = stacks.setdefault(frames, len(stacks))
            self._progress(done, len(taken.user_stacks))
        return places, tuple(stacks)

    def _kernel_addresses(self, index: int) -> tuple[int, ...]:
        addresses = ffi.new("uint64_t **")
        count = lib.event_store_kernel_stack(self._store, index, addresses)
        return tuple(ffi.unpack(addresses[0], count))

    def _user_stack(self, index: int) -> tuple[tuple[int, ...], bytes]:
        registers = ffi.new("uint64_t **")
        content = ffi.new("uint8_t **")
        size = lib.event_store_user_stack(self._store, index, registers, content)
        words = (content[0] - ffi.cast("uint8_t *", registers[0])) // ffi.sizeof("uint64_t")
        return tuple(ffi.unpack(registers[0], words)), bytes(ffi.buffer(content[0], size))
