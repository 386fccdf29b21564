"""Where all of the time of a process's threads went since it was watched."""

from msgspec import Struct

from kernel_delay.model.syscalls import Histogram
from kernel_delay.model.thread import ThreadTime


class ThreadTotals(Struct, frozen=True):
    """Where the time of one thread went since the start of the watch, inside and outside of rounds.

    Attributes:
        identity: A number that distinguishes threads when the kernel uses a thread ID again.
        tid: The thread ID.
        name: The thread name.
        time: The time since the start of the watch, up to now. `absent_ns` is the time in which
            the thread did not exist.
        waits: The histogram of complete waits for a CPU.
        waits_ns: The time of these waits, in ns.
        rounds: The histogram of complete rounds.
        rounds_ns: The time of these rounds, in ns.
        has_ended: The thread has ended: these totals are final.
    """

    identity: int
    tid: int
    name: str
    time: ThreadTime
    waits: Histogram
    waits_ns: int
    rounds: Histogram
    rounds_ns: int
    has_ended: bool = False


class CallTotals(Struct, frozen=True):
    """All completed system calls of one name since the start of the watch.

    Attributes:
        name: The name of the call.
        count: The number of calls.
        total_ns: The time of these calls, in ns.
    """

    name: str
    count: int
    total_ns: int


class Losses(Struct, frozen=True):
    """What is not known of a process since the start of the watch.

    Attributes:
        missed_events: Kernel events for which no program ran.
        dropped_records: Records of rounds that found no room.
        missed_rounds: Long rounds that found no room.
        missed_ends: Threads that ended without a report of their last totals.
    """

    missed_events: int = 0
    dropped_records: int = 0
    missed_rounds: int = 0
    missed_ends: int = 0


class Upcalls(Struct, frozen=True):
    """Packets that the datapath sent to user space since the start of the watch.

    Attributes:
        sent: Packets that were sent.
        failed: Packets that could not be sent.
    """

    sent: int = 0
    failed: int = 0


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
