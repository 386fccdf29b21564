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


ChainGap = Literal[
    "lasts", "interrupt", "threads", "ran", "circle", "hops", "not_followed", "serves", "for_whom"
]
"""Why it is not known whom the last thread of a chain waited for.

`lasts`: nothing woke it, and no one process is known to have the other end of what it waits for.
`interrupt`: a timer, a device or a packet woke it. `threads`: its process is waited for, and which
of the threads is not known. `ran`: as `threads`, and the last thread is the one that ran most of
the time. `circle`: it waited for a thread that is in the chain already, or for the first. `hops`:
there were too many. `not_followed`: it was not followed yet, or any more.
`serves`: it polled several files, and served others meanwhile. `for_whom`: as `serves`, but whether
what it did was for others is not known.
"""


class ChainThread(Struct, frozen=True, gc=False):
    """A thread that was waited for.

    Attributes:
        tid: The thread ID, as the tool numbers it. 0: several threads of the process, one after the
            other.
        pid: The process of the thread. 0: not known; if `tid` is 0 too, several processes of that
            name.
        name: The name of the thread. With several threads: that of the process.
        title: The title that the process gave itself in place of its arguments, as it was after
            the window (setproctitle). None: it gave itself none.
        process: The name of the process. Empty: not known.
    """

    tid: int
    pid: int
    name: str
    title: str | None = None
    process: str = ""


class HeldProcess(Struct, frozen=True, gc=False):
    """A process that something held, and that runs the program of one at the end of a chain.

    It has the same parent or cgroup too. Whether the chain leads to it is not known.

    Attributes:
        like: The process at the end of the chain.
        pid: The process.
        name: The name of the process.
        state: What held it: "stopped" or "frozen".
        ns: How long it was surely held, up to the end of the window, in ns.
        title: The title that it gave itself, as of a ChainThread.
        by: The task that stopped it. None: not known.
    """

    like: int
    pid: int
    name: str
    state: ChainState
    ns: int
    title: str | None = None
    by: ChainThread | None = None


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
        syscall: The system call in which the last thread slept, if whom that waited for is not
            known.
        gap: Why that is not known. None: it is, or there is no thread.
        traced: Whether `by` stopped the root as its tracer: no signal resumes it then.
        idle: Whether the thread is a server that waited for a request of its client, the first of
            `threads`.
        freezers: The files that kept the cgroups of a frozen root frozen: freezer.state (v1),
            cgroup.freeze (v2).
    """

    threads: tuple[ChainThread, ...]
    state: ChainState
    ns: int
    reason: SleepReason = "unknown"
    cgroup: str | None = None
    by: ChainThread | None = None
    device: str | None = None
    syscall: str | None = None
    gap: ChainGap | None = None
    traced: bool = False
    idle: bool = False
    freezers: tuple[str, ...] = ()


class WaitChain(Struct, frozen=True, gc=False):
    """The waits of a thread within the window, by their roots.

    Attributes:
        ns: The blocked time of the thread, in ns. The parts add up to it.
        parts: The parts, longest first.
        is_bounded: Threads or processes were not followed, as there were too many.
        held: Processes that were stopped or frozen, and run the program of one at the end of a
            chain that is not known further. At most eight.
    """

    ns: int
    parts: tuple[ChainPart, ...]
    is_bounded: bool = False
    held: tuple[HeldProcess, ...] = ()
