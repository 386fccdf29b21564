"""Why a thread did not run: where it slept, who woke it, and what limits it."""

from typing import Literal

from msgspec import Struct

SleepReason = Literal[
    "child",
    "clock",
    "core_dump",
    "disk",
    "epoll",
    "eventfd",
    "fanotify",
    "file_lock",
    "freeze",
    "frozen_filesystem",
    "fuse",
    "futex",
    "io_uring",
    "kernel_lock",
    "mmap_lock",
    "network_filesystem",
    "notification",
    "page_cache",
    "pipe",
    "poll",
    "ptrace",
    "reclaim",
    "rcu",
    "seccomp",
    "semaphore",
    "short",
    "signal",
    "socket_connect",
    "socket_receive",
    "socket_send",
    "swap",
    "terminal",
    "unknown",
    "userfaultfd",
    "vfork",
]
"""What a thread slept for, by the kernel functions on its stack: analysis/sleep_reasons.py.

"short": less than 200 us, and not looked at.
"""

WakerKind = Literal["thread", "hard_irq", "soft_irq", "unknown"]
"""Who ended a wait: a thread in its own context, or an interrupt whoever it interrupted."""


class Waker(Struct, frozen=True):
    """Who woke a thread from its waits in one place, how often, and how long it had slept.

    Of a thread, `tid` and `pid` are in the PID namespace that the tool runs in (0 if it is not
    there) and `comm` is its name. Of an interrupt they are 0 and empty.

    With `--wakers stacks`, of threads: `kernel_stack` and `user_stack` are the functions that it
    woke from, the innermost first; a waker that does so from several places is there for each.
    """

    kind: WakerKind
    tid: int
    pid: int
    comm: str
    count: int
    ns: int
    kernel_stack: tuple[str, ...] = ()
    user_stack: tuple[str, ...] = ()


class Sleep(Struct, frozen=True):
    """A thread's waits in one place of the kernel, within the window.

    `syscall` is the call's name, None outside of one. `stack` has the kernel's functions,
    the innermost first; it is empty where the waits were too short to look. `ns` is clipped to
    the window. `uninterruptible`: no signal could have ended them, but one that kills. `wakers`
    are those who did, longest first; of waits that were still going on there is none.

    Of waits of less than 200 us one in so much time is looked at, and its time stands for those
    since the one before too: `short_ns` is how much of `ns` is such an estimate. `count` is of
    those that were looked at.
    """

    reason: SleepReason
    syscall: str | None
    stack: tuple[str, ...]
    uninterruptible: bool
    count: int
    ns: int
    max_ns: int
    wakers: tuple[Waker, ...] = ()
    short_ns: int = 0


class Scheduling(Struct, frozen=True):
    """How the scheduler was told to treat a thread, when the window ended.

    `policy` is as in sched(7) without its SCHED_ (OTHER, FIFO, RR, BATCH, IDLE, DEADLINE, EXT),
    `cpus` are those that it may run on.
    """

    policy: str
    nice: int
    rt_priority: int
    cpus: tuple[int, ...]


class TaskTimes(Struct, frozen=True):
    """What the kernel itself counted of a thread within the window, about.

    `user_ns` and `system_ns` come in ticks (proc_pid_stat(5), utime and stime) and are an oracle
    for the account; `minor_faults` and `major_faults` are those of its system calls too.
    `steal_ns` is what the hypervisor took of its time on CPUs, a share of the user and kernel
    time that can't be placed; None where the kernel does not tell.
    """

    user_ns: int
    system_ns: int
    minor_faults: int
    major_faults: int
    steal_ns: int | None = None


class CpuUse(Struct, frozen=True):
    """One CPU within the window, from /proc/stat: in ticks."""

    cpu: int
    idle_ns: int
    steal_ns: int


class CgroupLimit(Struct, frozen=True):
    """What the target's cgroups let it have of the CPUs, and took from it within the window.

    `path` is the lowest cgroup with a quota, or the target's. `quota_ns` of CPU time each
    `period_ns`, None: no quota. `throttled_ns` is cpu.stat's, summed over CPUs. `frozen`: its
    freezer was on when the window ended.
    """

    path: str
    quota_ns: int | None
    period_ns: int
    throttled_periods: int
    throttled_ns: int
    frozen: bool


class CpuWeights(Struct, frozen=True):
    """By what the scheduler shares a CPU out between the target and process `pid`.

    `path` is the target's cgroup that is beside the other's `other_path` (None: the process is
    beside that itself), and the weights are cpu.shares of v1 or cpu.weight of v2, 0 for idle
    ones. Paths of "/autogroup-…" are the groups of sessions (sched_autogroup).
    """

    pid: int
    path: str | None
    weight: int
    other_path: str | None
    other_weight: int


class MemoryLimit(Struct, frozen=True):
    """A cgroup's limit of memory that was reached so often within the window."""

    path: str
    limit_bytes: int
    hits: int


class Stopper(Struct, frozen=True):
    """The last signal that stopped the target while it was measured, and the process it came from.

    `pid` is 0 for the kernel, as of a terminal, and where it is in another PID namespace than
    the tool; `comm` is None where the process is gone. `alone`: for sure nothing else stopped the
    target in the window; else it is not known who did for how long.
    """

    signal: int
    pid: int
    comm: str | None = None
    alone: bool = False


class Surroundings(Struct, frozen=True):
    """What of the machine and of other processes can keep a process from its work.

    `tracer` is the name and PID of the process that traces the target, or one of its threads
    that were stopped; `uprobed`: some tool has probes in its code, if only this one; `stopper`
    who stopped it; `memory` the limit of its cgroups that it reached most; each None where there
    is none, or it is not known.
    `weights` are of the processes that had its CPUs most and are in other cgroups or sessions.
    `dumping`: its core was being dumped when the window ended, and `lock_holder` is the name
    and PID of who had the file lock then that it waited for; `lock_shared`: others had it too.
    `is_late`: the machine was too busy to have them read at the window's boundaries. Of what is
    counted there is none then, but for the cgroup's: that is of somewhat more than the window.
    """

    cpus: tuple[CpuUse, ...] = ()
    cgroup: CgroupLimit | None = None
    tracer: tuple[str, int] | None = None
    uprobed: bool | None = None
    stopper: Stopper | None = None
    memory: MemoryLimit | None = None
    weights: tuple[CpuWeights, ...] = ()
    dumping: bool = False
    lock_holder: tuple[str, int] | None = None
    lock_shared: bool = False
    is_late: bool = False
