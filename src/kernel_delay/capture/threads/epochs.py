"""The programs' records, sorted by epoch and thread."""

from typing import Any

from msgspec import Struct

from kernel_delay.capture.threads.rings import Ring


class ThreadRecords(Struct):
    """All records of one thread in one epoch.

    There is one thread record, and one a syscall, interrupt handler and
    holder, unless an interrupt came just while the first was made: then both count.
    """

    threads: list[Any]
    syscalls: list[Any]
    hard_irqs: list[Any]
    holders: list[Any]


class EpochRecords(Struct):
    """All records of one epoch: its threads by identity, and each ring's oldest number."""

    threads: dict[int, ThreadRecords]
    oldest: dict[Ring, int]
