"""Interrupts that were served on a thread's time."""

from msgspec import Struct


class HardIrqStats(Struct, frozen=True, gc=False):
    """Runs of one hard IRQ handler while the thread was on the CPU.

    Attributes:
        name: The name of the handler, as in /proc/interrupts.
        count: The number of runs.
        total_ns: The time of all runs, in ns.
        max_ns: The longest run, in ns.
    """

    name: str
    count: int
    total_ns: int
    max_ns: int


class SoftIrqStats(Struct, frozen=True, gc=False):
    """Runs of one soft IRQ vector while the thread was on the CPU.

    Attributes:
        vector: The number of the vector.
        name: The name of the vector. None: include/linux/interrupt.h (6.18) has no name for it.
        count: The number of runs.
        total_ns: The time of all runs, in ns.
        max_ns: The longest run, in ns.
    """

    vector: int
    name: str | None
    count: int
    total_ns: int
    max_ns: int
