"""Reads the programs' rings, and sorts the records by window and thread."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from kernel_delay.capture.threads import RecordSource
from kernel_delay.capture.threads.counting import DumpedThread
from kernel_delay.capture.threads.epochs import Epochs, ThreadRecords
from kernel_delay.capture.threads.rings import Numbered, Ring, RingMemory, Rings, SummedUp
from kernel_delay.capture.windows import wait_for_programs
from kernel_delay.loader._records import lib


class _Part(Numbered, Protocol):
    """A record of what a thread's record is of, whose number it has."""

    thread: int


Part = TypeVar("Part", bound=_Part)


class RecordReader:
    """The records that are read and not released are in `epochs`.

    They are read where the programs write them: those of the newest window still grow.
    """

    def __init__(self, source: RecordSource, memory: RingMemory, ended: SummedUp) -> None:
        """Read `memory`; records in `ended` are left out."""
        self._source = source
        self._rings = Rings.of(memory, source.control, ended)
        self.epochs = Epochs()
        self._complete_ns = 0
        self._unmatched = 0

    def has_all_of(self, epoch: int, states: Mapping[int, DumpedThread]) -> bool:
        """Whether all is read that is charged to the epoch, and what threads did after it.

        An epoch goes on until the next one begins. To wait for programs takes milliseconds: of
        many windows that wait to be read, once is enough.
        """
        if self._source.newest_epoch() == epoch:
            return False
        next_window = self._source.control.windows[(epoch + 1) % lib.WINDOWS]
        return next_window.start_ns < self._complete_ns and all(
            state.epoch <= epoch or identity in self.epochs.threads(state.epoch)
            for identity, state in states.items()
        )

    def read_after(self, stop_ns: int) -> None:
        """Take in all that was recorded before `stop_ns`, which is past."""
        if stop_ns >= self._complete_ns:
            self.read()

    def read(self) -> None:
        """Take in all that was recorded by now.

        All other records are made after their thread's, so with that ring's head
        taken last the thread's is always read too.
        """
        complete_ns = lib.monotonic_ns()
        heads = [ring.head() for ring in reversed(self._rings)]
        wait_for_programs()
        self._complete_ns = complete_ns
        threads, syscalls, hard_irqs, owners, sleeps = reversed(heads)
        for record in self._rings.threads.read_to(threads):
            self.epochs.add_thread(lib.THREAD_RING, record)
        self._assign(self._rings.sleeps, sleeps, lambda thread: thread.sleeps)
        self._assign(self._rings.owners, owners, lambda thread: thread.owners)
        self._assign(self._rings.hard_irqs, hard_irqs, lambda thread: thread.hard_irqs)
        self._assign(self._rings.syscalls, syscalls, lambda thread: thread.syscalls)

    def _assign(
        self, ring: Ring[Part], head: int, records_of: Callable[[ThreadRecords], list[Part]]
    ) -> None:
        """Give each record of the ring up to `head` to that of its thread."""
        for record in ring.read_to(head):
            thread = self.epochs.owner(ring.index, record.number, record.thread)
            if thread is None:
                # Released: user space was too slow to see a window's last events.
                self._unmatched += 1
            else:
                records_of(thread).append(record)

    def read_again(self) -> None:
        """Forget all that is read and not released: some of it may be summed up."""
        self.epochs.clear()
        for ring in self._rings:
            ring.read_again()
        self._complete_ns = 0

    def release(self, epoch: int) -> None:
        """Give the records of the epoch and of all older ones back to the programs."""
        self.epochs.release(epoch)
        for ring in self._rings:
            ring.release(self.epochs.oldest(ring.index) or ring.next_number)

    def release_unread(self, epoch: int) -> bool:
        """Give back all that was recorded by now, which is of no window.

        `epoch` is the newest; False, and nothing is given back, if there is a newer one.
        """
        heads = [(ring, ring.head()) for ring in self._rings]
        if self._source.newest_epoch() != epoch:
            # A trigger has opened a window just now: some of these may be of that.
            return False
        self.read_again()
        for ring, head in heads:
            ring.pass_over(head)
        return True

    def newly_dropped(self) -> int:
        """Return how many records are missing since the last call: for want of room, or too late.

        Owners and sleeps that found no room are in the sums of the others.
        """
        in_sums = (self._rings.owners, self._rings.sleeps)
        full = sum(ring.newly_full() for ring in self._rings if ring not in in_sums)
        dropped, self._unmatched = full + self._unmatched, 0
        return dropped
