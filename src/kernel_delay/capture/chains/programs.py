"""chains.bpf.c in the kernel: loaded, attached, and its events."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kernel_delay.capture.chains._chain_records import ffi
from kernel_delay.errors import KernelDelayError
from kernel_delay.loader._records import ffi as session_ffi
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.features import read_kernel_features
from kernel_delay.loader.maps import Records
from kernel_delay.loader.namespace import find_process
from kernel_delay.loader.objects import load_object, open_object, refusal

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent

NOTE_STATES = "note_states"

# Of a mebibyte each: who writes faster than they are read must not keep us from all else.
MOST_BATCHES = 16


class ChainPrograms:
    """The programs, from construction to close()."""

    def __init__(self, pid: int) -> None:
        """Load and attach them; nothing is followed yet. Raises as load_object() does.

        `pid` is a process that is measured: others are numbered as it is.
        """
        self._closing = ExitStack()
        self._tgids: dict[int, int] = {}
        with ExitStack() as failing:
            failing.callback(self.close)
            self._object = self._closing.enter_context(open_object("chains"))
            initial = self._object.map(".rodata.options").initial_values()
            options = session_ffi.cast("struct options *", initial)
            options.pid_level = find_process(pid).pid_level
            options.contexts_distance = read_kernel_features().contexts_distance
            load_object(self._object)
            self._followed = self._object.map(".bss").mmap(writable=True)
            self._missed = self._object.map(".data.missed").mmap()
            size = ffi.sizeof("struct chain_event")
            self._records = Records(self._object.map("events"), size)
            self._closing.callback(self._records.close)
            try:
                for program in self._object.programs():
                    if program.name == NOTE_STATES:
                        continue
                    self._closing.callback(program.attach().close)
            except BpfError as error:
                raise refusal(error) from error
            failing.pop_all()

    def close(self) -> None:
        """Detach and unload them."""
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
        self._object.program(NOTE_STATES).iterate()

    def missed(self) -> int:
        """Return how many events found no room so far, or their program could not run."""
        misses = sum(program.recursion_misses() for program in self._object.programs())
        return misses + int.from_bytes(self._missed[:8], sys.byteorder)

    def events(self) -> "Iterator[ChainEvent]":
        """Take away and yield the events that are there."""
        for _ in range(MOST_BATCHES):
            batch: Sequence[bytes] = tuple(self._records.take())
            for data in batch:
                yield ffi.from_buffer("struct chain_event *", data)
            if not batch:
                return
