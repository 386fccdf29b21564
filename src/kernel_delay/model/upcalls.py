"""Packets that the kernel's datapath sent to user space."""

from msgspec import Struct


class UpcallCount(Struct, frozen=True):
    """Upcalls on one CPU; `count` is at least 1."""

    cpu: int
    count: int


class UpcallStats(Struct, frozen=True):
    """Packets that the kernel's datapath sent to user space within the window, or failed to.

    `error` is the errno, positive, and `name` its name; 0 and None for those
    that were sent. The CPUs are those the packets were handled on.
    """

    error: int
    name: str | None
    count: int
    cpus: tuple[UpcallCount, ...]
