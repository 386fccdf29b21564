"""A Sample and its parts: the one contract between measuring and reporting.

`capture/` makes Samples, `analysis/` adds to them, and
`reporters/` print them. A saved recording is Samples as JSON Lines, so every
field here is also a field there; docs/sample.schema.json is generated from
this file. All times are integers in nanoseconds; those named `…_ns` that are
points in time are CLOCK_MONOTONIC.
"""

import datetime
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from msgspec import Meta, Struct, field

from kernel_delay.model.causes import Finding, Scheduling, Sleep, Surroundings, TaskTimes

WallClock = Annotated[datetime.datetime, Meta(tz=True)]
"""A time of day and its zone, RFC 3339 in JSON."""


Histogram = tuple[int, ...]
"""How many intervals lasted from 2^i up to 2^(i+1) ns, for each index i.

All from 2^31 ns on are at index 31, and one of 0 ns at 0. Zeros at the end are
left out, so it is empty when nothing was counted or accounting was off.
"""


class Intervals(Struct, frozen=True):
    """How often something lasted from a start to a stop within the window, and how long.

    `count` is at least 1: where nothing was counted there is no Intervals.
    """

    count: int
    total_ns: int
    min_ns: int
    max_ns: int
    histogram: Histogram = ()


Abi = Literal["i386", "x32", "arm"]
"""An ABI that a 64-bit kernel serves beside its own: its numbers mean other calls."""


class SyscallStats(Struct, frozen=True):
    """One thread's calls of one system call that began and ended within the window.

    `number` is that of the ABI the call was made by: `abi`, or None for the
    machine's own. `name` is None when libseccomp's table does not know it.

    The next four, `guest_ns` and `unaccounted_ns`, say where all time in these calls
    went, with what lies within the window of those that were under way at its edges: on
    a CPU (interrupts included), waiting for one, asleep, stopped, in a virtual machine,
    and what could not be known. So with accounting `count` may be 0; without, the six
    are None.
    """

    number: int
    name: str | None
    count: int
    total_ns: int
    max_ns: int
    histogram: Histogram = ()
    on_cpu_ns: int | None = None
    ready_ns: int | None = None
    blocked_ns: int | None = None
    stopped_ns: int | None = None
    abi: Abi | None = None
    without_entry: int = 0
    guest_ns: int | None = None
    unaccounted_ns: int | None = None


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


class LockWait(Struct, frozen=True):
    """Waits for one lock of the process while one of its threads held it.

    `address` is the lock's in the process, 0 for several of them for which
    there was no room one by one. `tid` and `name` are those of the thread
    that owned it when the wait began.
    """

    address: int
    tid: int
    name: str
    waits: int
    ns: int


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

    `threads` is above 1 where so many threads ended within the window that
    there was no room for each: then this is the sum of all of that `name`,
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


class StackFrame(Struct, frozen=True):
    """One function on a stack, or what is known of it.

    `name` is None where no symbol covers `address`; `offset` counts from the
    function, without a name from the object's start. `object` is the file's
    path, "kernel" or a module's name, "[vdso]", "[anon]" for code without a
    file, or None. `source` is "file:line" where asked for and known.
    `inlined`: into the next frame's function.
    """

    address: int
    name: str | None
    offset: int
    object: str | None
    source: str | None = None
    inlined: bool = False


class SyscallEvent(Struct, frozen=True, gc=False):
    """One call of a system call that began and ended within the window.

    `number`, `name` and `abi` are as in SyscallStats. `ret` is what the kernel
    returned: on failure an errno, negative. The stacks are places in the
    Sample's `stacks`, None if not taken.
    """

    tid: int
    number: int
    name: str | None
    entry_ns: int
    exit_ns: int
    ret: int
    kernel_stack: int | None
    user_stack: int | None
    abi: Abi | None = None


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


class Target(Struct, frozen=True):
    """The process that was measured; `exe` is None when its file can't be read."""

    pid: int
    comm: str
    exe: str | None


# What closed a window: the time asked for, a trigger, the user (Ctrl-C), the
# process's exit, or that its stop trigger did not come in the time allowed.
EndedBy = Literal["time", "trigger", "interrupt", "exit", "timeout"]


class TriggerHit(Struct, frozen=True):
    """A trigger that opened or closed a window, and the thread in whose context it was hit.

    A trigger in the kernel may be hit by any process's thread. `tid` is 0 if
    the thread is not in the PID namespace the tool runs in.
    """

    trigger: str
    tid: int
    comm: str


class Window(Struct, frozen=True):
    """The time that was measured: [start_ns, stop_ns) of CLOCK_MONOTONIC.

    `start_time` is the wall clock at `start_ns` and `collected_time` when the
    results were read, both in UTC. `ended_by` says what closed the window.
    The triggers are those that were hit, at `start_ns` and at `stop_ns`.
    """

    start_ns: int
    stop_ns: int
    duration_ns: int
    start_time: WallClock
    collected_time: WallClock
    ended_by: EndedBy
    start_trigger: TriggerHit | None = None
    stop_trigger: TriggerHit | None = None


class Lost(Struct, frozen=True):
    """What could not be recorded, by reason; all zero when the Sample is whole.

    `map_entries`: records of threads, syscalls or interrupts for which there
    was no room. `missed_events`: kernel events on which a program was not
    run or could not reach the thread's state. `missed_triggers`: hits of the
    start trigger while there was no room for another window.

    Of syscall events: `events`, for which the buffer had no room;
    `shorter_events`, left out as there were too many longer ones; `stacks`,
    events without a stack as the buffer or the table of stacks had no room;
    `short_stacks`, events whose user stack lacks its outer functions as these
    are not in the copy; `cut_stacks`, those of them whose copy was as long as
    was asked for; `broken_stacks`, as there was no way to tell the caller.

    `upcalls`, which found no room for their counter.
    """

    map_entries: int = 0
    missed_events: int = 0
    missed_triggers: int = 0
    events: int = 0
    shorter_events: int = 0
    stacks: int = 0
    short_stacks: int = 0
    cut_stacks: int = 0
    broken_stacks: int = 0
    upcalls: int = 0

    def __add__(self, other: Self) -> "Lost":
        """Return what was lost of both."""
        fields = self.__struct_fields__
        return Lost(*(getattr(self, field) + getattr(other, field) for field in fields))


class Sample(Struct, frozen=True):
    """All that was measured in one window, of one process.

    `syscall_events` are sorted by the time they began; None if they were not
    asked for. `stacks` are theirs, each once, the innermost function first.
    `upcalls` are those of the kernel's datapaths, by their error; None where
    they were not counted.
    `verdict`: what was found, worst first; empty when that was nothing, and
    without accounting.
    """

    schema: Literal["kernel-delay/2"]
    target: Target
    kernel: str
    host: str
    window: Window
    threads: tuple[Thread, ...]
    syscall_events: Sequence[SyscallEvent] | None = None
    stacks: tuple[tuple[StackFrame, ...], ...] = ()
    upcalls: tuple[UpcallStats, ...] | None = None
    lost: Lost = field(default_factory=Lost)
    surroundings: Surroundings | None = None
    verdict: tuple[Finding, ...] = ()


class SkippedWindow(Struct, frozen=True):
    """A window between two triggers that is shorter than asked for: only when it was."""

    window: Window
