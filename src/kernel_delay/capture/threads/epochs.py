"""The programs' records, sorted by epoch and thread."""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.loader._records import ffi

if TYPE_CHECKING:
    from kernel_delay.loader._records import (
        HardIrqRecord,
        OwnerRecord,
        SleepRecord,
        SyscallRecord,
        ThreadRecord,
    )


class ThreadRecords(Struct):
    """All records of one thread in one epoch.

    There is one thread record, and one a syscall, interrupt handler, owner
    and kind of sleep, unless an interrupt came just while the first was made: then both count.
    """

    threads: "list[ThreadRecord]"
    syscalls: "list[SyscallRecord]"
    hard_irqs: "list[HardIrqRecord]"
    owners: "list[OwnerRecord]"
    sleeps: "list[SleepRecord]"

    @classmethod
    def none(cls) -> "ThreadRecords":
        """Return no records."""
        return cls([], [], [], [], [])

    def copied(self) -> "ThreadRecords":
        """Return the records as they are now, each in memory of its own."""
        return ThreadRecords(
            [ffi.new("struct thread_record *", each) for each in self.threads],
            [ffi.new("struct syscall_record *", each) for each in self.syscalls],
            [ffi.new("struct hard_irq_record *", each) for each in self.hard_irqs],
            [ffi.new("struct owner_record *", each) for each in self.owners],
            [ffi.new("struct sleep_record *", each) for each in self.sleeps],
        )


class EpochRecords(Struct):
    """All records of one epoch: its threads by identity, and the oldest number of each ring."""

    threads: dict[int, ThreadRecords]
    oldest: dict[int, int]


class Epochs:
    """The records that are read and not released.

    To find those of one epoch, or to release them, does not take longer the more epochs
    there are: thousands of short windows may wait to be reported.
    """

    def __init__(self) -> None:
        """Have none."""
        self._epochs: dict[int, EpochRecords] = {}
        self._epochs_of: defaultdict[int, list[int]] = defaultdict(list)
        self._owners: dict[int, tuple[int, ThreadRecords]] = {}
        self._oldest: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def clear(self) -> None:
        """Forget all."""
        self._epochs.clear()
        self._epochs_of.clear()
        self._owners.clear()
        self._oldest.clear()

    def add_thread(self, ring: int, record: "ThreadRecord") -> None:
        """Add a thread's record, which is in the ring of that index."""
        number, identity, number_of_epoch = record.number, record.identity, record.epoch
        epoch = self._epochs.get(number_of_epoch)
        if epoch is None:
            epoch = self._epochs[number_of_epoch] = EpochRecords({}, {})
        thread = epoch.threads.get(identity)
        if thread is None:
            thread = epoch.threads[identity] = ThreadRecords.none()
            insort(self._epochs_of[identity], number_of_epoch)
        thread.threads.append(record)
        self._owners[number] = number_of_epoch, thread
        if ring not in epoch.oldest:
            self._note_oldest(ring, number, number_of_epoch)

    def owner(self, ring: int, number: int, thread: int) -> ThreadRecords | None:
        """Return where a ring's record of that number belongs; None if it was released.

        `thread` is the number of its thread's record.
        """
        found = self._owners.get(thread)
        if found is None:
            return None
        epoch, records = found
        if ring not in self._epochs[epoch].oldest:
            self._note_oldest(ring, number, epoch)
        return records

    def _note_oldest(self, ring: int, number: int, epoch: int) -> None:
        self._epochs[epoch].oldest[ring] = number
        heappush(self._oldest[ring], (number, epoch))

    def threads(self, epoch: int) -> Mapping[int, ThreadRecords]:
        """Return the epoch's records by the thread's identity."""
        records = self._epochs.get(epoch)
        return records.threads if records else {}

    def next_after(self, epoch: int) -> dict[int, ThreadRecords]:
        """Return of each thread its records of the first epoch after `epoch` that it has any of."""
        found = {}
        for identity, epochs in self._epochs_of.items():
            place = bisect_right(epochs, epoch)
            if place < len(epochs):
                found[identity] = self._epochs[epochs[place]].threads[identity]
        return found

    def release(self, epoch: int) -> None:
        """Forget the records of the epoch and of all older ones."""
        for older in [number for number in self._epochs if number <= epoch]:
            for identity, thread in self._epochs.pop(older).threads.items():
                for record in thread.threads:
                    del self._owners[record.number]
                self._forget_epoch(identity, older)

    def _forget_epoch(self, identity: int, epoch: int) -> None:
        epochs = self._epochs_of[identity]
        epochs.remove(epoch)
        if not epochs:
            del self._epochs_of[identity]

    def oldest(self, ring: int) -> int | None:
        """Return the number of a ring's oldest record, None if there is none."""
        heap = self._oldest[ring]
        while heap and heap[0][1] not in self._epochs:
            heappop(heap)
        return heap[0][0] if heap else None
