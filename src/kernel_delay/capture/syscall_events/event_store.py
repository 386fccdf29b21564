"""Syscall events: kept while a window is open, and named when it is over."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from kernel_delay.capture.plan import EventPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.syscall_events._events import ffi, lib
from kernel_delay.capture.syscall_events.kept_events import KeptEvents, Place
from kernel_delay.capture.syscall_events.stacks import StackNamer, UserStack
from kernel_delay.capture.windows import NEVER_NS
from kernel_delay.errors import UnavailableError
from kernel_delay.loader._records import lib as records
from kernel_delay.model import Lost, StackFrame, SyscallEvent
from kernel_delay.symbols.demangle import Demangler

if TYPE_CHECKING:
    from kernel_delay.capture.syscall_events._events import EventStorePointer, TakenEventsPointer

# Of the bitmap of the pages that were copied.
PAGES_BYTES = 8 * int(records.STACK_PAGES_WORDS)

# User stacks that are named in one exchange with the process that parses; most have 16 KiB.
STACKS_AT_ONCE = 64

# Called with how many stacks are named, and of how many.
Progress = Callable[[int, int], None]


class EventsOfWindow(Struct, frozen=True):
    """A window's events, their stacks, and what was lost of both since the window before."""

    events: Sequence[SyscallEvent]
    stacks: tuple[tuple[StackFrame, ...], ...]
    lost: Lost


class EventStore:
    """Keeps a process's events from now until close(), within the plan's bounds."""

    def __init__(
        self,
        programs: Programs,
        pid: int,
        plan: EventPlan,
        progress: Progress,
        notify: Callable[[str], None],
    ) -> None:
        """Keep what comes through the programs' buffer; `notify` what of its files is not read."""
        self._programs = programs
        self._progress = progress
        self._demangler = Demangler()
        self._notify = notify
        self._lost_events = programs.counter("missed_syscall_events")
        self._lost_stacks = programs.counter("missed_stacks")
        self._lost_of_discarded = Lost()
        with ExitStack() as failing:
            self._namer = StackNamer(pid, plan)
            failing.callback(self._namer.close)
            events = programs.events()
            self._store = lib.event_store_open(
                events.fd, events.max_entries, plan.max_events, plan.max_stacks
            )
            if self._store == ffi.NULL:
                raise UnavailableError("no memory for syscall events: lower --max-events")
            failing.callback(lib.event_store_close, self._store)
            self._note()
            failing.pop_all()

    def nameless(self) -> str | None:
        """Return why kernel functions will have no names, None if they will."""
        return self._namer.nameless()

    def close(self) -> None:
        """Stop, and forget what is kept."""
        lib.event_store_close(self._store)
        self._namer.close()

    def take(self, stop_ns: int) -> EventsOfWindow:
        """Return the events of the windows until `stop_ns`, which must be over."""
        taken = self._take(stop_ns)
        self._note()
        named = _NamedStacks(self._store, self._namer, taken, self._progress)
        self._print_remarks()
        lost_events = self._programs.counter("missed_syscall_events")
        lost_stacks = self._programs.counter("missed_stacks")
        of_window = EventsOfWindow(
            events=KeptEvents(
                ffi.gc(taken.events, lib.free),
                taken.count,
                named.kernel_places,
                named.user_places,
            ),
            stacks=self._demangled(named.stacks()),
            lost=self._lost_of_discarded
            + Lost(
                events=lost_events - self._lost_events,
                shorter_events=taken.shorter,
                stacks=lost_stacks - self._lost_stacks + taken.unkept_stacks,
                truncated_stacks=named.ends["short"],
                cut_stacks=named.cut,
                failed_unwinds=named.ends["lost"],
            ),
        )
        self._lost_events, self._lost_stacks = lost_events, lost_stacks
        self._lost_of_discarded = Lost()
        return of_window

    def _demangled(
        self, stacks: tuple[tuple[StackFrame, ...], ...]
    ) -> tuple[tuple[StackFrame, ...], ...]:
        names = {frame.name for stack in stacks for frame in stack if frame.name}
        plain = self._demangler.names(names)
        if not plain:
            return stacks
        return tuple(
            tuple(
                structs.replace(frame, name=plain[frame.name]) if frame.name in plain else frame
                for frame in stack
            )
            for stack in stacks
        )

    def discard(self, stop_ns: int) -> None:
        """Forget the events of the windows until `stop_ns`, which must be over.

        The next window may be open: what was lost by now may be its.
        """
        taken = self._take(stop_ns)
        lib.free(taken.events)
        self._lost_of_discarded += Lost(shorter_events=taken.shorter, stacks=taken.unkept_stacks)

    def forget(self) -> None:
        """Forget all events and what was lost of them, while no window is open."""
        lib.free(self._take(NEVER_NS).events)
        self._lost_events = self._programs.counter("missed_syscall_events")
        self._lost_stacks = self._programs.counter("missed_stacks")
        self._lost_of_discarded = Lost()

    def _take(self, stop_ns: int) -> "TakenEventsPointer":
        taken = ffi.new("struct taken_events *")
        if lib.event_store_take(self._store, stop_ns, taken):
            raise MemoryError
        return taken

    def _note(self) -> None:
        """Note what the process has mapped since."""
        mappings = ffi.new("struct mapped_range[]", self._namer.note())
        if lib.event_store_set_mappings(self._store, mappings, len(mappings)):
            raise MemoryError
        self._programs.large_frames.write(*self._namer.large_frames())
        if self._programs.unwind_tables:
            self._programs.unwind_tables.write(*self._namer.unwind_ranges())
        self._print_remarks()

    def _print_remarks(self) -> None:
        for remark in self._namer.remarks():
            self._notify(remark)


class _NamedStacks:
    """The stacks of a window's events, named, each once.

    `kernel_places` and `user_places` say where each stack of the store is
    among them; `ends` how many events' user stacks ended in which way, and
    `cut` how many of the short ones have a copy that is as long as may be.
    """

    def __init__(
        self,
        store: "EventStorePointer",
        namer: StackNamer,
        taken: "TakenEventsPointer",
        progress: Progress,
    ) -> None:
        self._store = store
        self._namer = namer
        self._stacks: dict[tuple[StackFrame, ...], int] = {}
        self.ends = {"whole": 0, "short": 0, "lost": 0}
        self.cut = 0
        self.kernel_places = [self._kernel_place(at) for at in range(taken.kernel_stacks)]
        self.user_places: list[Place] = []
        for first in range(0, taken.user_stacks, STACKS_AT_ONCE):
            end = min(first + STACKS_AT_ONCE, taken.user_stacks)
            self._add_user_stacks(range(first, end))
            progress(end, taken.user_stacks)

    def stacks(self) -> tuple[tuple[StackFrame, ...], ...]:
        return tuple(self._stacks)

    def _place(self, frames: tuple[StackFrame, ...]) -> int:
        return self._stacks.setdefault(frames, len(self._stacks))

    def _kernel_place(self, index: int) -> Place:
        stack = ffi.new("struct taken_stack *")
        lib.event_store_kernel_stack(self._store, index, stack)
        if not stack.uses:
            return None
        words = ffi.cast("uint64_t *", stack.bytes)
        addresses = ffi.unpack(words, stack.size // ffi.sizeof("uint64_t"))
        return self._place(self._namer.kernel_frames(tuple(addresses)))

    def _add_user_stacks(self, indexes: range) -> None:
        stacks = [self._user_stack(index) for index in indexes]
        named = iter(self._namer.user_frames([stack for stack, uses in stacks if uses]))
        for (_, content, _), uses in stacks:
            if not uses:
                self.user_places.append(None)
                continue
            frames, end = next(named)
            self.ends[end] += uses
            if end == "short" and self._namer.is_full(content):
                self.cut += uses
            self.user_places.append(self._place(frames))

    def _user_stack(self, index: int) -> tuple[UserStack, int]:
        """A stack, and how many events have it."""
        stack = ffi.new("struct taken_stack *")
        lib.event_store_user_stack(self._store, index, stack)
        if not stack.uses:
            return ((), b"", 0), 0
        words = ffi.cast("uint64_t *", stack.bytes) - stack.registers
        registers = tuple(ffi.unpack(stack.registers, words))
        content = bytes(ffi.buffer(stack.bytes, stack.size))
        pages = int.from_bytes(ffi.buffer(stack.pages, PAGES_BYTES), sys.byteorder)
        return (registers, content, pages), stack.uses
