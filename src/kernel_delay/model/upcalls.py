"""Packets that the kernel's datapath sent to user space."""

from msgspec import Struct


class UpcallCount(Struct, frozen=True):
    """Upcalls on one CPU.

    Attributes:
        cpu: The CPU that handled the packets.
        count: The number of upcalls. At least 1.
    """

    cpu: int
    count: int


class UpcallStats(Struct, frozen=True):
    """Packets that the kernel's datapath sent to user space within the window, or failed to send.

    Attributes:
        error: The errno, positive. 0: sent.
        name: The name of the errno. None: sent.
        count: The number of packets.
        cpus: The same by CPU.
    """

    error: int
    name: str | None
    count: int
    cpus: tuple[UpcallCount, ...]
