"""What the kernel did to one thread, and where all of its window went."""

from msgspec import Struct

from kernel_delay.model.causes import Scheduling, Sleep, SleepReason, TaskTimes
from kernel_delay.model.interrupts import HardIrqStats, SoftIrqStats
from kernel_delay.model.intervals import Intervals
from kernel_delay.model.syscalls import SyscallStats


class ThreadTime(Struct, frozen=True):
    """Where one thread's window went: the parts sum up to it exactly.

    On a CPU: `user_ns` in its program, `kernel_ns` in system calls and page
    faults, or in a kernel worker's work, `hard_irq_ns` and `soft_irq_ns` for
    interrupts (soft without the hard ones within). Off it: `ready_ns` waiting for one, `blocked_ns`
    asleep, `stopped_ns` by job control or ptrace, `throttled_ns` by a CPU quota of its cgroup,
    `frozen_ns` by a freezer. `absent_ns` before it was created and after it ended.
    `unaccounted_ns` is what could not be known: for want of room, or as a kernel
    event was missed before which it began.
    `guest_ns`: on a CPU, in the code of a virtual machine (KVM's), which is no part of
    `kernel_ns`.
    """

    user_ns: int
    kernel_ns: int
    hard_irq_ns: int
    soft_irq_ns: int
    ready_ns: int
    blocked_ns: int
    stopped_ns: int
    absent_ns: int
    unaccounted_ns: int
    throttled_ns: int = 0
    frozen_ns: int = 0
    guest_ns: int = 0


class PageFaults(Struct, frozen=True):
    """Page faults of a thread's program, not those within its system calls.

    `on_cpu_ns` is their share of the thread's `kernel_ns`, `blocked_ns` of its
    `blocked_ns`.
    """

    count: int
    on_cpu_ns: int
    blocked_ns: int


class CpuTaker(Struct, frozen=True):
    """A task that had the CPU while the thread waited for it: in how many waits, and how long.

    `tid` is 0 and `comm` is "idle" when none had it: the CPU was asleep, and
    waking it took the time. `pid` is the task's process. Both ids are as the PID
    namespace has them that the tool runs in, and 0 for a task that is not in there.
    `policy` is that of sched(7) without SCHED_, `rt_priority` 1 to 99 with FIFO and
    RR, or 0.
    """

    tid: int
    comm: str
    waits: int
    ns: int
    pid: int = 0
    policy: str = "OTHER"
    nice: int = 0
    rt_priority: int = 0
    kernel_thread: bool = False


class OwnerDoings(Struct, frozen=True):
    """What the owner of a lock did while it was waited for, in the waits that it ended itself.

    Of `known_ns`, their time, it slept for `blocked_ns`, waited for a CPU for `ready_ns` and was
    stopped, throttled or frozen for `held_ns`; else it was on a CPU, or off it for less than
    50 us at a time. `syscall` and `reason` say where it slept most: more than half of
    `blocked_ns`, if any place had that much.
    """

    known_ns: int
    blocked_ns: int
    ready_ns: int
    held_ns: int
    syscall: str | None = None
    reason: SleepReason = "unknown"


class LockWait(Struct, frozen=True):
    """Waits for one lock of the process while one of its threads held it.

    `address` is the lock's in the process, 0 for several of them for which
    there was no room one by one. `tid` and `name` are those of the thread
    that owned it when the wait began, or, of one that had begun before the
    measurement, when that did. `owner` is what that one did meanwhile, None
    where it is not known of any of the waits.
    """

    address: int
    tid: int
    name: str
    waits: int
    ns: int
    owner: OwnerDoings | None = None


class Thread(Struct, frozen=True):
    """What the kernel did to one thread within the window.

    `tid` is the thread's id in the PID namespace the tool runs in. An
    interval is counted only if it started and stopped inside the window.
    `long_poll` is the time from a poll's return to the next poll, `run` on a
    CPU, `ready` waiting for one, `stopped` by job control or ptrace; each is
    None where nothing was counted. `exited`: the thread was gone by the
    window's end.

    With accounting every thread of the process is there and has a `time`.
    `preempted_ns` is the share of its `ready_ns` that followed on its being
    taken off a CPU, not on its being woken. `cpu_taken_by` says who had the CPU
    meanwhile, longest first: with `cpu_taken_by_others_ns`, of those for whom
    there was no room, and `cpu_taken_by_unknown_ns`, where it can't be told, that
    is all of its `ready_ns`. `lock_waits` says who had the locks, and with
    `lock_waits_others_ns` is all time asleep in futex(2) for a lock whose owner
    is known. `page_faults` is None where the kernel can't show them: their time
    is in `user_ns` then.

    `sleeps` says where it slept and who woke it, longest first. `own_soft_irq_ns` is the share
    of the soft IRQs' time that its own system calls raised, as sending over loopback does.
    `signals` were delivered to handlers of its own, and `migrations` took it to another CPU.

    `threads` is above 1 where more threads ended within the window than
    there was room for: then this is the sum of all of that `name`,
    which is "[other names]" for those of too many. Its `tid` is 0, and its `time`
    sums up to as many windows.
    `kernel_worker`: one that the kernel made in the process to work for it, as
    io_uring's and vhost's. It never leaves the kernel and makes no calls; all its
    time on a CPU is in `kernel_ns`.
    """

    tid: int
    name: str
    exited: bool
    syscalls: tuple[SyscallStats, ...]
    long_poll: Intervals | None
    run: Intervals | None
    ready: Intervals | None
    stopped: Intervals | None
    hard_irqs: tuple[HardIrqStats, ...]
    soft_irqs: tuple[SoftIrqStats, ...]
    time: ThreadTime | None = None
    preempted_ns: int | None = None
    cpu_taken_by: tuple[CpuTaker, ...] = ()
    lock_waits: tuple[LockWait, ...] = ()
    page_faults: PageFaults | None = None
    sleeps: tuple[Sleep, ...] = ()
    own_soft_irq_ns: int = 0
    signals: int | None = None
    migrations: int | None = None
    scheduling: Scheduling | None = None
    task_times: TaskTimes | None = None
    threads: int = 1
    kernel_worker: bool = False
    cpu_taken_by_others_ns: int = 0
    cpu_taken_by_unknown_ns: int = 0
    lock_waits_others_ns: int = 0
