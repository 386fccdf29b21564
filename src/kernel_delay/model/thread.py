"""What the kernel did to one thread, and where all of its window went."""

from typing import Literal

from msgspec import Struct

from kernel_delay.model.appctl import PmdStats
from kernel_delay.model.causes import Scheduling, Sleep, SleepReason, TaskTimes
from kernel_delay.model.chains import WaitChain
from kernel_delay.model.syscalls import HardIrqStats, Intervals, SoftIrqStats, SyscallStats


class ThreadTime(Struct, frozen=True, gc=False):
    """Where the window went for one thread.

    The parts sum up to the window exactly.

    Attributes:
        user_ns: On a CPU, in the program, in ns.
        kernel_ns: On a CPU, in system calls, page faults, or the work of a kernel worker, in ns.
        hard_irq_ns: On a CPU that served hard IRQs, in ns.
        soft_irq_ns: On a CPU that served soft IRQs, without the hard IRQs within them, in ns.
        ready_ns: Runnable, waiting for a CPU, in ns.
        blocked_ns: Asleep, in ns.
        stopped_ns: Stopped by job control or ptrace, in ns.
        absent_ns: Before the thread was created and after it ended, in ns.
        unaccounted_ns: Not known, in ns: a record had no room, or a kernel event was missed.
        throttled_ns: Kept off the CPU by a CPU quota of its cgroup, in ns.
        frozen_ns: Frozen by the freezer of its cgroup, in ns.
        guest_ns: On a CPU, in the code of a virtual machine (KVM), in ns. Not part of `kernel_ns`.
        tool_ns: On a CPU, in the program of kernel-delay that reports a call as an event and takes
            its stack, in ns. It runs after the call and is not part of it.
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
    tool_ns: int = 0


class PageFaults(Struct, frozen=True, gc=False):
    """Page faults of a thread's program.

    Page faults within system calls are not included.

    Attributes:
        count: The number of page faults.
        on_cpu_ns: Time on a CPU in page faults, in ns. Part of the thread's `kernel_ns`.
        blocked_ns: Time asleep in page faults, in ns. Part of the thread's `blocked_ns`.
    """

    count: int
    on_cpu_ns: int
    blocked_ns: int


class CpuTaker(Struct, frozen=True, gc=False):
    """A task that had the CPU while the thread waited for that CPU.

    Attributes:
        tid: The thread ID in the PID namespace of the tool. 0: not in that namespace, or the idle
            CPU.
        comm: The name of the task. "idle": the CPU slept, and the time is the wake-up of the CPU.
        waits: The number of waits in which the task ran.
        ns: How long the task ran during these waits, in ns.
        pid: The process of the task. 0: not in the PID namespace of the tool.
        policy: The scheduling policy, as in sched(7) without SCHED_.
        nice: The nice value.
        rt_priority: The real-time priority: 1 to 99 with FIFO and RR, else 0.
        kernel_thread: The task is a thread of the kernel.
        is_tool: The task is a thread of the kernel-delay that measured this.
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
    is_tool: bool = False


class OwnerActivity(Struct, frozen=True, gc=False):
    """What the owner of a lock did during the waits that the owner ended.

    Attributes:
        known_ns: The length of these waits, in ns.
        blocked_ns: The owner slept, in ns.
        ready_ns: The owner waited for a CPU, in ns.
        held_ns: The owner was stopped, throttled or frozen, in ns. The rest of `known_ns`: on a
            CPU, or off it for less than 50 µs at a time.
        syscall: The system call in which the owner slept for more than half of `blocked_ns`. None:
            no call had that much.
        reason: What the owner waited for in that call.
    """

    known_ns: int
    blocked_ns: int
    ready_ns: int
    held_ns: int
    syscall: str | None = None
    reason: SleepReason = "unknown"


class LockWait(Struct, frozen=True, gc=False):
    """Waits for one lock while a thread of the same process held that lock.

    Attributes:
        address: The address of the lock. 0: several locks, summed up for want of room.
        tid: The thread that owned the lock when the wait began, or when the measurement began.
        name: The name of that thread.
        waits: The number of waits.
        ns: The time of these waits within the window, in ns.
        owner: What the owner did meanwhile. None: not known for any of the waits.
    """

    address: int
    tid: int
    name: str
    waits: int
    ns: int
    owner: OwnerActivity | None = None


class NewestSignal(Struct, frozen=True, gc=False):
    """The last signal that was delivered to a thread within the window, and who sent it.

    Attributes:
        signal: The number of the signal.
        origin: `itself`: the thread's own process sent it, or made a call that causes it, as
            SIGPIPE. `process`: another one sent it. `timer`: of timer_create(2), setitimer(2) or
            alarm(2). `kernel`: another event, as a fault or the end of a child.
        pid: The other process that sent it. 0: there is none, or the tool has no number for it:
            the receiver is in another PID namespace than the tool, or has exited.
        comm: The name of that process at the end of the window. None: it has exited, or is not
            known.
    """

    signal: int
    origin: Literal["itself", "process", "timer", "kernel"]
    pid: int = 0
    comm: str | None = None


class Thread(Struct, frozen=True, gc=False):
    """What the kernel did to one thread within the window.

    An interval counts only if it began and ended inside the window.

    Attributes:
        tid: The thread ID in the PID namespace of the tool. 0: the sum of several threads.
        name: The thread name. "[other names]": a sum of threads of too many names.
        exited: The thread ended before the window did.
        syscalls: The system calls of the thread.
        long_poll: Iterations of the event loop: from the return of a poll to the start of the next
            poll. None: none was counted.
        run: Runs on a CPU. None: none was counted.
        ready: Waits for a CPU (run-queue latency). None: none was counted.
        stopped: Stops by job control or ptrace. None: none was counted.
        hard_irqs: Hard IRQs served while the thread was on the CPU, by handler.
        soft_irqs: Soft IRQs served while the thread was on the CPU, by vector.
        time: Where the whole window went. None: accounting was off.
        preempted_ns: The part of `ready_ns` after a preemption, in ns. None: accounting was off.
        cpu_taken_by: The tasks that had the CPU while the thread waited, longest first.
        lock_waits: Waits for locks whose owner is known.
        page_faults: The page faults of the program. None: the kernel does not show them. Their
            time is then in `user_ns`.
        sleeps: Where the thread slept and who woke it, longest first.
        own_soft_irq_ns: The part of `soft_irq_ns` that the thread's own calls raised, in ns.
            Sending over loopback does so.
        signals: Signals delivered to handlers of the thread. None: accounting was off.
        migrations: Moves to another CPU. None: accounting was off, the thread ended, or its count
            at the end of the window was read too late.
        scheduling: The scheduling settings at the end of the window. None: not known.
        task_times: The kernel's own counts for the thread. None: not known.
        threads: The number of threads in this entry. Above 1: the sum of ended threads of one
            name, and `time` sums up to as many windows.
        kernel_worker: The kernel made this thread to work for the process, as for io_uring and
            vhost. Such a thread never leaves the kernel.
        cpu_taken_by_others_ns: Waiting time in which further tasks had the CPU, in ns.
        cpu_taken_by_unknown_ns: Waiting time for which the task on the CPU is not known, in ns.
        lock_waits_others_ns: Waiting time for further locks whose owner is known, in ns.
        chain: The threads that it waited for, to the roots. None: it did not wait, or `--chains`
            was not given.
        pmd: What a PMD thread of Open vSwitch did. None: it is no PMD thread, or not known.
        unsplit_ns: The part of `user_ns` that may have been in system calls, in ns: what a watch
            without `--calls` has no sample of.
        newest_signal: The last one of `signals`. None: there was none, or not known, as of several
            threads.
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
    chain: WaitChain | None = None
    pmd: PmdStats | None = None
    unsplit_ns: int = 0
    newest_signal: NewestSignal | None = None
