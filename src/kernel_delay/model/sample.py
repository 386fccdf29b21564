"""A Sample and its parts: the one contract between measuring and reporting.

`capture/` makes Samples, `analysis/` adds to them, and
`reporters/` print them. A saved recording is Samples as JSON Lines, so every
field here is also a field there; docs/reference/sample.schema.json is generated from
these. All times are integers in nanoseconds; those named `…_ns` that are
points in time are CLOCK_MONOTONIC.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

from kernel_delay.model.causes import SystemState
from kernel_delay.model.lost import Lost
from kernel_delay.model.recording import Container
from kernel_delay.model.rounds import Round
from kernel_delay.model.syscalls import StackFrame, SyscallEvent
from kernel_delay.model.thread import Thread
from kernel_delay.model.timeline import Slice
from kernel_delay.model.totals import UpcallStats
from kernel_delay.model.verdict import Finding
from kernel_delay.model.window import Window

Unseen = Literal["page_faults", "futex_owners", "earlier_calls"]
"""What some kernels let no program see: page faults of programs (it takes `fentry`), and who has a
futex that others waited for already when the capture began (Linux 5.18)."""


class Target(Struct, frozen=True):
    """The process that was measured.

    Attributes:
        pid: The process ID in the PID namespace of the tool. 0: ended threads of several
            processes, summed up by name.
        comm: The process name.
        exe: The path of the program. None: the path cannot be read.
        container: The container of the process. None: the process is in no container. Only set
            where several processes were measured.
        command_line: The arguments (/proc/PID/cmdline) after the window, cut after 256 bytes.
            PostgreSQL and nginx write their activity there. Empty in a record of `watch`.
    """

    pid: int
    comm: str
    exe: str | None
    container: Container | None = None
    command_line: tuple[str, ...] = ()


class Sample(Struct, frozen=True):
    """All that was measured in one window, of one process.

    Attributes:
        schema: The format of this object.
        target: The process that was measured.
        kernel: The kernel release, as in uname(2).
        host: The host name.
        window: The time that was measured.
        threads: The threads of the process. In a record of `watch`: only the thread of the round.
        syscall_events: Single system calls, sorted by their start. None: `--syscall-events` was
            not given.
        stacks: The stacks of `syscall_events` and of a round's profile, each once, innermost
            function first.
        upcalls: Upcalls of the kernel's Open vSwitch datapath, by error. None: not counted.
        lost: What could not be recorded. With several processes the losses can be those of any of
            them.
        system_state: The state of the machine and of other processes. None: not read.
        verdict: The findings and remarks, worst first. Empty: nothing was found, or accounting was
            off.
        timeline: Everything that the threads did, thread by thread, sorted by start. None:
            `--timeline` was not given.
        round: The iteration of an event loop that this window covers. None: a window of `capture`.
        processes: The number of processes measured in this window. Each process has a Sample of
            its own.
        unseen: What this kernel does not show to any program. "page_faults": their time is in
            `user_ns`. "futex_owners": owners of locks whose wait began before the capture.
            "earlier_calls": calls that began before the capture.
    """

    schema: Literal["kernel-delay/3"]
    target: Target
    kernel: str
    host: str
    window: Window
    threads: tuple[Thread, ...]
    syscall_events: Sequence[SyscallEvent] | None = None
    stacks: tuple[tuple[StackFrame, ...], ...] = ()
    upcalls: tuple[UpcallStats, ...] | None = None
    lost: Lost = field(default_factory=Lost)
    system_state: SystemState | None = None
    verdict: tuple[Finding, ...] = ()
    timeline: Sequence[Slice] | None = None
    round: Round | None = None
    processes: int = 1
    unseen: tuple[Unseen, ...] = ()


class SkippedWindow(Struct, frozen=True):
    """A window between two triggers that is shorter than `--trigger-delta`.

    Attributes:
        window: The time between the two triggers.
    """

    window: Window
