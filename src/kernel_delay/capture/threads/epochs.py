"""The programs' records, sorted by epoch and thread."""

from collections.abc import Container
from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.loader._records import ffi

if TYPE_CHECKING:
    from kernel_delay.loader._records import (
        HardIrqRecord,
        HolderRecord,
        SyscallRecord,
        ThreadRecord,
    )


class ThreadRecords(Struct):
    """All records of one thread in one epoch.

    There is one thread record, and one a syscall, interrupt handler and
    holder, unless an interrupt came just while the first was made: then both count.
    """

    threads: "list[ThreadRecord]"
    syscalls: "list[SyscallRecord]"
    hard_irqs: "list[HardIrqRecord]"
    holders: "list[HolderRecord]"

    @classmethod
    def none(cls) -> "ThreadRecords":
        """Return no records."""
        return cls([], [], [], [])

    def copied(self) -> "ThreadRecords":
        """Return the records as they are now, each in memory of its own."""
        return ThreadRecords(
            [ffi.new("struct thread_record *", each) for each in self.threads],
            [ffi.new("struct syscall_record *", each) for each in self.syscalls],
            [ffi.new("struct hard_irq_record *", each) for each in self.hard_irqs],
            [ffi.new("struct holder_record *", each) for each in self.holders],
        )


class EpochRecords(Struct):
    """All records of one epoch: its threads by identity, and the oldest number of each ring."""

    threads: dict[int, ThreadRecords]
    oldest: dict[int, int]

    @classmethod
    def none(cls) -> "EpochRecords":
        """Return no records."""
        return cls({}, {})

    def copied(self, known: Container[int]) -> "EpochRecords":
        """Return the records of all threads but those `known`, each in memory of its own."""
        threads = {
            identity: records.copied()
            for identity, records in self.threads.items()
            if identity not in known
        }
        return EpochRecords(threads, self.oldest)
