"""A Sample and its parts: the one contract between measuring and reporting.

`capture/` makes Samples, `analysis/` adds to them, and
`reporters/` print them. A saved recording is Samples as JSON Lines, so every
field here is also a field there; docs/reference/sample.schema.json is generated from
these. All times are integers in nanoseconds; those named `…_ns` that are
points in time are CLOCK_MONOTONIC.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from kernel_delay.formatting import printable
from kernel_delay.model.appctl import Coverage
from kernel_delay.model.causes import SystemState
from kernel_delay.model.packet_losses import PacketLosses
from kernel_delay.model.recording import Container
from kernel_delay.model.rounds import Round
from kernel_delay.model.syscalls import StackFrame, SyscallEvent
from kernel_delay.model.thread import Thread
from kernel_delay.model.totals import UpcallStats
from kernel_delay.model.window import Lost, Window

SliceKind = Literal[
    "call", "fault", "unknown_mode", "lost_modes",
    "running", "ready_woken", "ready_preempted", "blocked", "stopped", "throttled", "frozen",
    "absent", "unknown", "lost_states",
    "hard_irq", "soft_irq", "guest",
]  # fmt: skip
"""What a thread did, or was kept by.

Its modes are "call" and "fault"; between these it was in its program, or a kernel worker in its
work. "unknown_mode" is one of which an event was missed, and "lost_modes" where there was no room
for them.

Its states are "running" and the next eight, which follow one another without a gap;
"lost_states" is where there was no room for them.

The last three came while it ran.
"""

SliceMode = Literal["user", "syscall", "fault", "worker", "unknown"]
"""Where the thread's own execution was: in its program, in a call, or a page fault of its program;
a kernel worker's is always "worker"."""


class Slice(Struct, frozen=True, gc=False, array_like=True):
    """One activity of a thread in [start_ns, stop_ns).

    In JSON this is an array of the fields. A boundary of the window cuts a slice.

    Attributes:
        tid: The thread ID.
        kind: The activity: a mode, a scheduler state or an interrupt. Without "call" and "fault"
            the thread was in its program. "unknown…" marks a missed event, "lost…" a lack of room.
        start_ns: The start (CLOCK_MONOTONIC).
        stop_ns: The end (CLOCK_MONOTONIC).
        mode: The execution context that the time is charged to.
        name: The call, the interrupt, or for a blocked state the reason of the sleep. None: not
            known.
        cpu: The CPU that the thread ran on or waited for. None: not known.
    """

    tid: int
    kind: SliceKind
    start_ns: int
    stop_ns: int
    mode: SliceMode
    name: str | None = None
    cpu: int | None = None


Who = Literal["program", "other-process", "kernel", "limit", "hypervisor", "person", "tool"]
"""Whose doing a finding is.

The program's own; another process's; the kernel's or a device's; a limit's that was set (quota,
affinity, priority); the hypervisor's; a person's (signal, debugger, freezer); or kernel-delay's
own, which is only there as it measures.
"""


class Finding(Struct, frozen=True):
    """One verdict or remark, with its evidence.

    Attributes:
        rule: The name of the rule.
        who: Who or what caused the delay.
        share: The share of the window that the thread lost, from 0 to 1.
        tid: The thread that lost most.
        text: All sentences: what happened, the details and the advice.
        remark: The sentence shows where time went, and accuses nobody. A report begins with it as
            VERDICT where a thread waited and nothing is found.
        evidence: The figures of the sentences, in ns or as counts.
        advice: What to do, in sentences. None: no advice.
        sentence: What happened to which thread, and for how long; without the share. Empty: the
            recording is older than this field.
        details: Further sentences: who caused it, the object, and what is not known.
        without_least_ns: How long the interval would have taken at least without this delay, in ns.
            An interval is a round, or the time between two triggers that one thread hit. None: the
            window is no such interval, or this is not known.
        without_most_ns: How long it would have taken at most, in ns. None: as above, or something
            may have gone on meanwhile that the thread would have waited for then.
    """

    rule: str
    who: Who
    share: float
    tid: int
    text: str
    remark: bool = False
    evidence: Mapping[str, int] = {}
    advice: str | None = None
    sentence: str = ""
    details: tuple[str, ...] = ()
    without_least_ns: int | None = None
    without_most_ns: int | None = None


Unseen = Literal[
    "page_faults",
    "futex_owners",
    "earlier_calls",
    "files_of_sleeps",
    "stacks_of_wakers",
    "samples",
    "calls",
]
"""What some kernels let no program see: page faults of programs (it takes `fentry`), who has a
futex that others waited for already when the capture began (Linux 5.18), in which call a thread
was then (5.15), and what a slow thread runs (where perf events take more rights). And calls that
`watch` does not hook unless it is asked to."""


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
            "earlier_calls": calls that began before the capture. "files_of_sleeps": the files that
            threads slept on. "stacks_of_wakers": what `--wakers stacks` asks for. "samples": what
            slow threads ran. "calls": how many calls there were but polls, and page faults, as a
            watch without `--calls` hooks polls alone; the time on a CPU in calls is by samples.
        packet_losses: Packets and messages that were lost. None: not read.
        coverage: What Open vSwitch or OVN counted itself. None: `--coverage` was not given, or
            another record had been made within the second before.
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
    packet_losses: PacketLosses | None = None
    coverage: Coverage | None = None

    def __repr__(self) -> str:
        """Say of what it is; all fields are for `msgspec.structs.asdict()`."""
        return f"<Sample of {self._title()}>"

    def _repr_html_(self) -> str:
        """Show the verdict and the threads in a notebook, those that it is about first."""
        # No command needs it.
        from kernel_delay.model.notebook import items, section, table

        place = {finding.tid: place for place, finding in reversed([*enumerate(self.verdict)])}
        threads = sorted(
            self.threads,
            key=lambda thread: (place.get(thread.tid, len(place)), -_lost_ns(thread)),
        )
        rows = [
            (str(thread.tid), thread.name, *_percentages(thread, self.window.duration_ns))
            for thread in threads[:_SHOWN_THREADS]
        ]
        texts = [finding.text for finding in self.verdict]
        if len(threads) > _SHOWN_THREADS:
            texts.append(f"{len(threads) - _SHOWN_THREADS:,} more threads are not shown.")
        return section(self._title(), items(texts), table(("TID", "THREAD", *_SHOWN_TIMES), rows))

    def _title(self) -> str:
        target, window = self.target, self.window
        remarks = sum(finding.remark for finding in self.verdict)
        counts = (
            _counted(len(self.threads), "thread"),
            _counted(len(self.verdict) - remarks, "finding"),
            _counted(remarks, "remark"),
        )
        time = f"{window.duration_ns / 1e6:,.6g} ms"
        return f"{printable(target.comm)} ({target.pid}): {', '.join((time, *counts))}"


def _counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


_SHOWN_THREADS = 30

_SHOWN_TIMES = {
    "USER %": "user_ns",
    "KERNEL %": "kernel_ns",
    "READY %": "ready_ns",
    "BLOCKED %": "blocked_ns",
    "STOPPED %": "stopped_ns",
}


def _lost_ns(thread: Thread) -> int:
    time = thread.time
    return 0 if time is None else time.ready_ns + time.blocked_ns + time.stopped_ns


def _percentages(thread: Thread, window_ns: int) -> Iterator[str]:
    """Yield the parts of a thread's time that a notebook shows; of several threads their mean."""
    for name in _SHOWN_TIMES.values():
        if thread.time is None or not window_ns:
            yield "not known"
        else:
            yield f"{100 * getattr(thread.time, name) / (window_ns * thread.threads):.1f}"


class SkippedWindow(Struct, frozen=True):
    """A window between two triggers that is shorter than `--trigger-delta`.

    Attributes:
        window: The time between the two triggers.
    """

    window: Window
