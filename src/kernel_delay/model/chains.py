"""Who a thread waited for, and whom these waited for, to the root of each part of its waits."""

from typing import Literal

from msgspec import Struct

from kernel_delay.model.causes import SleepReason

ChainState = Literal[
    "running",
    "runnable",
    "throttled",
    "stopped",
    "frozen",
    "blocked",
    "unknown",
]
"""What the last thread of a chain did. "unknown": that, or whom it waited for, is not known."""


class ChainThread(Struct, frozen=True, gc=False):
    """A thread that was waited for.

    Attributes:
        tid: The thread ID, as the tool numbers it.
        pid: The process of the thread.
        name: The name of the thread.
    """

    tid: int
    pid: int
    name: str


class ChainPart(Struct, frozen=True, gc=False):
    """A part of a thread's waits: all of it has the same chain and the same root.

    Attributes:
        threads: The thread that was waited for, the one that this waited for, and so on to the
            root. Empty: the thread itself slept for the reason, or it is not known for whom.
        state: The state of the root meanwhile.
        ns: The length of this part in all, in ns.
        reason: The reason of a root's sleep. "unknown": it did not sleep, or that is not known.
        cgroup: The cgroup whose quota of CPU time throttled the root, or the folder of the cgroup
            that froze it. None: neither, or not known.
        by: The task that had the CPU of a root that is runnable, or that stopped it, by a signal or
            as its tracer. None: neither, or not known.
        device: The block device of the file that a root waited for, as sda1. None: it did not wait
            for a disk, or not known.
    """

    threads: tuple[ChainThread, ...]
    state: ChainState
    ns: int
    reason: SleepReason = "unknown"
    cgroup: str | None = None
    by: ChainThread | None = None
    device: str | None = None


class WaitChain(Struct, frozen=True, gc=False):
    """The waits of a thread within the window, by their roots.

    Attributes:
        ns: The blocked time of the thread, in ns. The parts add up to it.
        parts: The parts, longest first.
        is_bounded: Threads or processes were not followed, as there were too many.
    """

    ns: int
    parts: tuple[ChainPart, ...]
    is_bounded: bool = False
