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

"short": less than 200 us, and not looked at. Where a new one belongs, the tests of
analysis/sleep_reasons.py say.
"""

POLL_REASONS: tuple[SleepReason, ...] = ("poll", "epoll")
"""Waits for any of several files, and so maybe for several processes."""

RECEIVE_REASONS: tuple[SleepReason, ...] = (*POLL_REASONS, "socket_receive")
"""Waits in which a server gets the requests of its clients, and a client its answers."""

WakerKind = Literal["thread", "hard_irq", "soft_irq", "unknown"]
"""Who ended a wait: a thread in its own context, or an interrupt whoever it interrupted."""


class Waker(Struct, frozen=True, gc=False):
    """Who ended the waits of a thread in one place.

    With `--wakers stacks` one entry for each stack of the waker.

    Attributes:
        kind: A thread in its own context, or an interrupt.
        tid: The thread ID in the PID namespace of the tool. 0: an interrupt, or not in that
            namespace.
        pid: The process of that thread. 0: an interrupt, or not in that namespace.
        comm: The name of that thread. Empty: an interrupt.
        count: The number of waits that it ended.
        ns: The length of these waits, in ns.
        kernel_stack: The kernel functions of the waker, innermost first. Only with `--wakers
            stacks`.
        user_stack: The program functions of the waker, innermost first. Only with `--wakers
            stacks`.
        woke_last: Whether it ended the newest of the thread's waits. False of all: not known.
    """

    kind: WakerKind
    tid: int
    pid: int
    comm: str
    count: int
    ns: int
    kernel_stack: tuple[str, ...] = ()
    user_stack: tuple[str, ...] = ()
    woke_last: bool = False


FileKind = Literal[
    "pipe",
    "unix",
    "tcp",
    "udp",
    "socket",
    "file",
    "device",
    "eventfd",
    "epoll",
    "other",
    "unknown",
]
"""What is open: "socket" is one of another family, "pipe" also a FIFO."""


class FilePeer(Struct, frozen=True, gc=False):
    """A process with the other end of a pipe, terminal or socket, or the same eventfd or queue.

    Attributes:
        pid: The process, as the tool numbers it.
        comm: Its name.
        stopped: A signal kept it stopped when it was looked at, just after the window.
        asleep: All its threads slept in polls, futexes or accept then. Looked for only if it alone
            has the other end of a socket.
        freezers: The files that kept its cgroups frozen then: freezer.state (v1), cgroup.freeze
            (v2).
    """

    pid: int
    comm: str
    stopped: bool = False
    asleep: bool = False
    freezers: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether it did nothing for anybody until a person lets it."""
        return self.stopped or bool(self.freezers)


class SleepFile(Struct, frozen=True, gc=False):
    """The open file that a thread waited on, as it was at the end of the window.

    Attributes:
        fd: The file descriptor.
        inode: The number of the inode, its lower 32 bits.
        kind: What is open. "unknown": the descriptor was closed, or is of another file by now.
        name: The path; of a socket its own address; else what /proc/PID/fd shows. Empty: not
            known.
        peer_address: The address of a socket's other end. None: not known, or there is none.
        peers: The processes that have the other end, at most eight. Empty: none is known.
        more_peers: There may be further ones.
        is_client: The process connected to the other end, which accepted. False: it did not, or
            that is not known.
        is_server: The process accepted the connection, so it waits there for requests. False: it
            did not, or that is not known.
        held_back: Bytes that the process sent on a TCP connection, and that the kernel held back
            then: they are few, and the other end had not acknowledged earlier ones.
        peer_held_back: The same of what the other end sent.
        last_sent_ns: How long ago the process sent data on a TCP connection last, in ns, in steps
            of a ms. If it never did: how long ago the connection was made. None: not known.
    """

    fd: int
    inode: int
    kind: FileKind = "unknown"
    name: str = ""
    peer_address: str | None = None
    peers: tuple[FilePeer, ...] = ()
    more_peers: bool = False
    is_client: bool = False
    is_server: bool = False
    held_back: int = 0
    peer_held_back: int = 0
    last_sent_ns: int | None = None


class Sleep(Struct, frozen=True, gc=False):
    """Waits of a thread in one place of the kernel, within the window.

    Attributes:
        reason: What the thread waited for, by the kernel functions on its stack.
        syscall: The system call. None: outside of any call.
        stack: The kernel functions, innermost first. Empty: the waits were too short to take a
            stack.
        uninterruptible: Only a fatal signal could end these waits.
        count: The number of waits for which a stack was taken.
        ns: The time of these waits within the window, in ns.
        max_ns: The longest wait, in ns.
        wakers: Who ended the waits, longest first. A wait that continues after the window has no
            waker.
        short_ns: The part of `ns` that is an estimate from samples of waits below 200 µs, in ns.
        file: The open file that the call waited on, also the only file of a poll. In epoll_wait(2)
            the one whose event ended the waits, or the epoll file itself. None: not known, the call
            has none or polls several, or these waits were less than 5 % of the window.
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
    file: SleepFile | None = None


class Scheduling(Struct, frozen=True, gc=False):
    """The scheduling settings of a thread at the end of the window.

    Attributes:
        policy: The policy, as in sched(7) without SCHED_.
        nice: The nice value.
        rt_priority: The real-time priority: 1 to 99 with FIFO and RR, else 0.
        cpus: The CPUs that the thread may run on.
    """

    policy: str
    nice: int
    rt_priority: int
    cpus: tuple[int, ...]


class TaskTimes(Struct, frozen=True, gc=False):
    """The kernel's own counts for a thread within the window.

    They are approximate.

    Attributes:
        user_ns: User time by utime of proc_pid_stat(5), in ns, in steps of a clock tick.
        system_ns: System time by stime of proc_pid_stat(5), in ns, in steps of a clock tick.
        minor_faults: Minor page faults, also within system calls.
        major_faults: Major page faults, also within system calls.
        steal_ns: Time that the hypervisor took while the thread was on a CPU, in ns. None: the
            kernel does not report it.
    """

    user_ns: int
    system_ns: int
    minor_faults: int
    major_faults: int
    steal_ns: int | None = None


class CpuUse(Struct, frozen=True):
    """One CPU within the window, from /proc/stat.

    Attributes:
        cpu: The number of the CPU.
        idle_ns: Idle time, in ns, in steps of a clock tick.
        steal_ns: Time that the hypervisor took, in ns, in steps of a clock tick.
    """

    cpu: int
    idle_ns: int
    steal_ns: int


class CgroupLimit(Struct, frozen=True):
    """The CPU limit of the target's cgroups, and its effect within the window.

    Attributes:
        path: The lowest cgroup with a quota, or the target's own cgroup.
        quota_ns: The CPU time that each period allows, in ns. None: no quota.
        period_ns: The length of a period, in ns.
        throttled_periods: Periods in which the cgroup was throttled.
        throttled_ns: Throttled time of all CPUs (cpu.stat), in ns.
        frozen: The freezer was on at the end of the window.
        used_ns: CPU time that all processes of the cgroup used, in ns. None: not known.
    """

    path: str
    quota_ns: int | None
    period_ns: int
    throttled_periods: int
    throttled_ns: int
    frozen: bool
    used_ns: int | None = None


class CpuWeights(Struct, frozen=True):
    """How the scheduler divides a CPU between the target and another process.

    Attributes:
        pid: The other process.
        path: The cgroup of the target that competes with `other_path`. "/autogroup-…" is a
            session's group. None: the process itself competes.
        weight: The weight of that side: cpu.shares (v1) or cpu.weight (v2). 0: idle.
        other_path: The cgroup of the other process that competes with `path`. None: the process
            itself competes.
        other_weight: The weight of the other side.
    """

    pid: int
    path: str | None
    weight: int
    other_path: str | None
    other_weight: int


class MemoryLimit(Struct, frozen=True):
    """A memory limit of a cgroup that was reached often within the window.

    Attributes:
        path: The cgroup.
        limit_bytes: The limit, in bytes.
        hits: How often the limit was reached.
    """

    path: str
    limit_bytes: int
    hits: int


class Stopper(Struct, frozen=True):
    """The last signal that stopped the target during the measurement, and its sender.

    Attributes:
        signal: The number of the signal.
        pid: The sender. 0: the kernel (as for a terminal), or a process of another PID namespace.
        comm: The name of the sender. None: the sender has exited.
        alone: Nothing else stopped the target within the window.
    """

    signal: int
    pid: int
    comm: str | None = None
    alone: bool = False


class CallCost(Struct, frozen=True):
    """The cost of the cheapest operations of the tool at the end of the window.

    Attributes:
        call_ns: One getppid(2), in ns, with all that runs at each system call of any process.
        function_ns: One call of an empty function, in ns: the speed of the CPU.
    """

    call_ns: int
    function_ns: int


class SystemState(Struct, frozen=True):
    """The state of the machine and of other processes that can delay the target.

    Attributes:
        cpus: The CPUs of the machine.
        cgroup: The CPU limit of the target's cgroups. None: not known.
        tracer: Name and PID of the process that traces the target. None: there is none.
        uprobed: A tool has probes in the code of the target. None: not known.
        stopper: The signal that stopped the target. None: no signal did.
        memory: The memory limit that was reached most often. None: none was.
        weights: The weights against the processes that had the target's CPUs most. Only processes
            of other cgroups or sessions.
        dumping: A core dump of the target was being written at the end of the window.
        lock_holder: Name and PID of the process that held the file lock that the target waited
            for. None: there is none.
        lock_shared: Other processes held that file lock too.
        polled_lock: The file of that lock, if the target slept on a timer between attempts to get
            it, or its children tried to. None: they did not.
        is_late: The machine was too busy to read these values at the boundaries of the window.
            Only the cgroup counts are then present, for a slightly longer time.
        freezers: The files that kept the cgroups frozen at the end of the window: freezer.state
            (v1), cgroup.freeze (v2).
        seccomp_filters: The number of seccomp filters. None: not known.
        call_cost: The cost of a system call on this machine. None: the threads made few calls that
            are as cheap.
        tracer_stopped: The tracer stopped a thread of the target, and no signal did.
        tracer_left: The tracer did not trace the target any more at the end.
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
    freezers: tuple[str, ...] = ()
    seccomp_filters: int | None = None
    call_cost: CallCost | None = None
    tracer_stopped: bool = False
    tracer_left: bool = False
    polled_lock: str | None = None
