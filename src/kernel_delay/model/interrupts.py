"""Interrupts that were served on a thread's time."""

from msgspec import Struct


class HardIrqStats(Struct, frozen=True):
    """Runs of one interrupt handler while the thread was on the CPU.

    `name` is the handler's, as in /proc/interrupts.
    """

    name: str
    count: int
    total_ns: int
    max_ns: int


class SoftIrqStats(Struct, frozen=True):
    """Runs of one soft IRQ vector while the thread was on the CPU.

    `name` is None for a vector that include/linux/interrupt.h (6.18) does not name.
    """

    vector: int
    name: str | None
    count: int
    total_ns: int
    max_ns: int
