"""The part of capture's programs that follows threads, see chains.h, and its events."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from kernel_delay.capture.chains._chain_records import ffi
from kernel_delay.capture.program_names import (
    CHAIN_EVENTS,
    CHAIN_PROGRAMS,
    FOLLOWED,
    STATES_OF_FOLLOWED,
    STOPS_OF_ALL,
    load_counter,
)
from kernel_delay.capture.windows import wait_for_programs
from kernel_delay.errors import KernelDelayError
from kernel_delay.loader._records import ffi as session_ffi
from kernel_delay.loader._records import lib
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.maps import Records
from kernel_delay.loader.namespace import ProcessFinder
from kernel_delay.loader.objects import refusal
from kernel_delay.loader.programs import BpfObject

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent
    from kernel_delay.loader._records import ControlPointer


class ChainPrograms:
    """Those programs, from construction to close()."""

    def __init__(self, bpf_object: BpfObject, control: "ControlPointer") -> None:
        """Attach what is attached for chains alone; nothing is followed yet.

        Args:
            bpf_object: capture.bpf.c, loaded with chains.
            control: its struct control.

        Raises:
            PermissionDeniedError, UnavailableError: the kernel refuses.
        """
        self._closing = ExitStack()
        self._control = control
        self._tgids: dict[int, int] = {}
        # What was read, and how much of it is done with.
        self._batch: Sequence[bytes] = ()
        self._taken = 0
        self._reporting = [bpf_object.program(name) for name in CHAIN_PROGRAMS]
        self._states = bpf_object.program(STATES_OF_FOLLOWED)
        with ExitStack() as failing:
            failing.callback(self._closing.close)
            self._finder = self._closing.enter_context(closing(ProcessFinder()))
            try:
                memory = bpf_object.map(FOLLOWED).mmap(writable=True)
                size = ffi.sizeof("struct chain_event")
                self._records = Records(bpf_object.map(CHAIN_EVENTS), size)
                self._closing.callback(self._records.close)
                self._misses_before = self._misses()
                self._closing.callback(bpf_object.program(STOPS_OF_ALL).attach().close)
            except BpfError as error:
                raise refusal(error) from error
            self._memory = memory
            self._followed = session_ffi.from_buffer("uint64_t[]", memory)
            self.follow_forks(are_followed=True)
            failing.pop_all()

    def close(self) -> None:
        """Follow nobody any more, nor whom programs that run now find forked."""
        self.follow_forks(are_followed=False)
        wait_for_programs()
        self._memory[: lib.TARGET_WORDS * 8] = bytes(lib.TARGET_WORDS * 8)
        self._closing.close()

    def follow(self, pid: int) -> bool:
        """Report the threads of a process from now on; False where it is gone."""
        try:
            tgid = self._finder.find(pid).tgid
        except KernelDelayError:
            return False
        lib.mark_process(self._followed, tgid, True)
        self._tgids[pid] = tgid
        return True

    def adopt(self, pid: int, tgid: int) -> None:
        """Take over a process that the programs follow since it was forked.

        Args:
            pid: Its number, as the tool sees it.
            tgid: The same in the initial PID namespace.
        """
        self._tgids[pid] = tgid

    def follow_forks(self, *, are_followed: bool) -> None:
        """Have whom a followed process forks followed too, from now on, or not."""
        self._followed[lib.TARGET_WORDS] = not are_followed

    def forget(self, pid: int) -> None:
        """Report the threads of a process no more."""
        if tgid := self._tgids.pop(pid, 0):
            self.leave(tgid)

    def leave(self, tgid: int) -> None:
        """The same of one that was not adopted."""
        lib.mark_process(self._followed, tgid, False)

    def note_states(self) -> None:
        """Have what all followed threads do now reported as events."""
        self._states.iterate()

    def missed(self) -> int:
        """Return how many events found no room so far, or their program could not run."""
        return (
            self._misses()
            - self._misses_before
            + load_counter(self._control, "missed_chain_events")
        )

    def _misses(self) -> int:
        return sum(program.recursion_misses() for program in self._reporting)

    def left(self) -> int:
        """Return how many events there are: of more than a mebibyte not all."""
        self._batch, self._taken = (*self._batch[self._taken :], *self._records.take()), 0
        return len(self._batch)

    def events(self, until_ns: int) -> "Iterator[ChainEvent]":
        """Take away and yield the events up to then, by the clock of the windows.

        Whoever writes faster than they are read keeps us from nothing else: what is later stays.
        """
        while True:
            while self._taken < len(self._batch):
                event = ffi.from_buffer("struct chain_event *", self._batch[self._taken])
                if event.now_ns > until_ns:
                    return
                self._taken += 1
                yield event
            self._batch, self._taken = tuple(self._records.take()), 0
            if not self._batch:
                return
