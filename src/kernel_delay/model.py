"""A Sample and its parts: the one contract between measuring and reporting.

`capture/` makes Samples, `accounting.py` and `verdict.py` add to them, and
`reporters/` print them. A saved recording is Samples as JSON Lines, so every
field here is also a field there; docs/sample.schema.json is generated from
this file. All times are integers in nanoseconds; those named `…_ns` that are
points in time are CLOCK_MONOTONIC.
"""

import datetime
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

WallClock = Annotated[datetime.datetime, Meta(tz=True)]
"""A time of day and its zone, RFC 3339 in JSON."""


class Intervals(Struct, frozen=True):
    """How often something lasted from a start to a stop within the window, and how long.

    `count` is at least 1: where nothing was counted there is no Intervals.
    """

    count: int
    total_ns: int
    min_ns: int
    max_ns: int


class SyscallStats(Struct, frozen=True):
    """One thread's calls of one system call that began and ended within the window.

    `name` is None when libseccomp's table does not know `number`.
    """

    number: int
    name: str | None
    count: int
    total_ns: int
    max_ns: int


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


class Thread(Struct, frozen=True):
    """What the kernel did to one thread within the window.

    `tid` is the thread's id in the PID namespace the tool runs in. An
    interval is counted only if it started and stopped inside the window.
    `long_poll` is the time from a poll's return to the next poll, `run` on a
    CPU, `ready` waiting for one, `stopped` by job control or ptrace; each is
    None where nothing was counted. `exited`: the thread was gone by the
    window's end.
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

    `ret` is what the kernel returned: on failure an errno, negative. The
    stacks are places in the Sample's `stacks`, None if not taken.
    """

    tid: int
    number: int
    name: str | None
    entry_ns: int
    exit_ns: int
    ret: int
    kernel_stack: int | None
    user_stack: int | None


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
    `skipped`: it is shorter than asked for, and nothing is reported of it.
    """

    start_ns: int
    stop_ns: int
    duration_ns: int
    start_time: WallClock
    collected_time: WallClock
    ended_by: EndedBy
    start_trigger: TriggerHit | None = None
    stop_trigger: TriggerHit | None = None
    skipped: bool = False


class Lost(Struct, frozen=True):
    """What could not be recorded, by reason; all zero when the Sample is whole.

    `map_entries`: records of threads, syscalls or interrupts for which there
    was no room. `missed_events`: kernel events on which a program was not
    run or could not reach the thread's state. `missed_triggers`: hits of the
    start trigger while there was no room for another window.

    Of syscall events: `events`, for which the buffer had no room;
    `shorter_events`, left out as there were too many longer ones; `stacks`,
    events without a stack as the buffer or the table of stacks had no room;
    `short_stacks`, events whose user stack lacks its outer functions as the
    copy ended before them; `broken_stacks`, as there was no way to tell the
    caller.
    """

    map_entries: int = 0
    missed_events: int = 0
    missed_triggers: int = 0
    events: int = 0
    shorter_events: int = 0
    stacks: int = 0
    short_stacks: int = 0
    broken_stacks: int = 0


class Sample(Struct, frozen=True):
    """All that was measured in one window, of one process.

    `syscall_events` are sorted by the time they began; None if they were not
    asked for. `stacks` are theirs, each once, the innermost function first.
    """

    schema: Literal["kernel-delay/1"]
    target: Target
    kernel: str
    host: str
    window: Window
    threads: tuple[Thread, ...]
    syscall_events: Sequence[SyscallEvent] | None = None
    stacks: tuple[tuple[StackFrame, ...], ...] = ()
    lost: Lost = field(default_factory=Lost)
