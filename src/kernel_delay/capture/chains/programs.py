"""The part of capture's programs that follows threads, see chains.h, and its events."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kernel_delay.capture.chains._chain_records import ffi
from kernel_delay.capture.program_names import (
    CHAIN_EVENTS,
    FOLLOWED,
    STATES_OF_FOLLOWED,
    STOPS_OF_ALL,
    load_counter,
)
from kernel_delay.errors import KernelDelayError
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.maps import Records
from kernel_delay.loader.namespace import find_process
from kernel_delay.loader.objects import refusal
from kernel_delay.loader.programs import BpfObject

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent
    from kernel_delay.loader._records import ControlPointer

# Each that reports something of a thread that is followed, or of any.
REPORTING = ("on_sched_switch", "on_sched_waking", STATES_OF_FOLLOWED, STOPS_OF_ALL)

# Of a mebibyte each: who writes faster than they are read must not keep us from all else.
MOST_BATCHES = 16


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
        self._reporting = [bpf_object.program(name) for name in REPORTING]
        self._states = bpf_object.program(STATES_OF_FOLLOWED)
        self._followed = bpf_object.map(FOLLOWED).mmap(writable=True)
        size = ffi.sizeof("struct chain_event")
        self._records = Records(bpf_object.map(CHAIN_EVENTS), size)
        self._closing.callback(self._records.close)
        self._misses_before = self._misses()
        try:
            self._closing.callback(bpf_object.program(STOPS_OF_ALL).attach().close)
        except BpfError as error:
            self.close()
            raise refusal(error) from error

    def close(self) -> None:
        """Follow nobody any more."""
        for pid in list(self._tgids):
            self.forget(pid)
        self._closing.close()

    def follow(self, pid: int) -> bool:
        """Report the threads of a process from now on; False where it is gone."""
        try:
            tgid = find_process(pid).tgid
        except KernelDelayError:
            return False
        self._followed[tgid // 8] |= 1 << tgid % 8
        self._tgids[pid] = tgid
        return True

    def forget(self, pid: int) -> None:
        """Report the threads of a process no more."""
        if tgid := self._tgids.pop(pid, 0):
            self._followed[tgid // 8] &= ~(1 << tgid % 8)

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

    def events(self) -> "Iterator[ChainEvent]":
        """Take away and yield the events that are there."""
        for _ in range(MOST_BATCHES):
            batch: Sequence[bytes] = tuple(self._records.take())
            for data in batch:
                yield ffi.from_buffer("struct chain_event *", data)
            if not batch:
                return
