"""A Sample and its parts: the one contract between measuring and reporting.

`capture/` makes Samples, `analysis/` adds to them, and
`reporters/` print them. A saved recording is Samples as JSON Lines, so every
field here is also a field there; docs/sample.schema.json is generated from
these. All times are integers in nanoseconds; those named `…_ns` that are
points in time are CLOCK_MONOTONIC.
"""

from collections.abc import Sequence
from typing import Literal, Self

from msgspec import Struct, field

from kernel_delay.model.causes import Surroundings
from kernel_delay.model.recording import Container
from kernel_delay.model.rounds import Round
from kernel_delay.model.syscalls import StackFrame, SyscallEvent
from kernel_delay.model.thread import Thread
from kernel_delay.model.timeline import Slice
from kernel_delay.model.upcalls import UpcallStats
from kernel_delay.model.verdict import Finding
from kernel_delay.model.window import Window


class Target(Struct, frozen=True):
    """The process that was measured; `exe` is None when its file can't be read.

    `container` is the one it is in, None where it is in none; only where processes were several.
    A PID of 0 is none: of threads of any of them that ended, and were summed up by name.
    """

    pid: int
    comm: str
    exe: str | None
    container: Container | None = None


class Lost(Struct, frozen=True):
    """What could not be recorded, by reason; all zero when the Sample is whole.

    `dropped_records`: records of threads, syscalls or interrupts for which there
    was no room. `missed_events`: kernel events on which a program was not
    run or could not reach the thread's state. `missed_triggers`: hits of the
    start trigger while there was no room for another window. `clamped_lengths`:
    intervals that ended before they began by the clocks of two CPUs, some
    nanoseconds apart: they are counted, as 0 ns long.

    Of syscall events: `events`, for which the buffer had no room;
    `shorter_events`, left out as there were too many longer ones; `stacks`,
    events without a stack as the buffer or the table of stacks had no room;
    `truncated_stacks`, events whose user stack lacks its outer functions as these
    are not in the copy; `cut_stacks`, those of them whose copy was as long as
    was asked for; `failed_unwinds`, as there was no way to tell the caller.

    `upcalls`, which found no room for their counter.

    Of the timeline, slices: `timeline_interrupts`, `timeline_states` and `timeline_modes` (calls
    and page faults), in the order in which they are given up.
    """

    dropped_records: int = 0
    missed_events: int = 0
    missed_triggers: int = 0
    clamped_lengths: int = 0
    events: int = 0
    shorter_events: int = 0
    stacks: int = 0
    truncated_stacks: int = 0
    cut_stacks: int = 0
    failed_unwinds: int = 0
    upcalls: int = 0
    timeline_interrupts: int = 0
    timeline_states: int = 0
    timeline_modes: int = 0

    def __add__(self, other: Self) -> "Lost":
        """Return what was lost of both."""
        fields = self.__struct_fields__
        return Lost(*(getattr(self, field) + getattr(other, field) for field in fields))


class Sample(Struct, frozen=True):
    """All that was measured in one window, of one process.

    `processes` is how many were measured in this window: there is a Sample of each, one after the
    other, and what was `lost` may be any one's, so that each has it.

    `syscall_events` are sorted by the time they began; None if they were not
    asked for. `stacks` are theirs, each once, the innermost function first.
    `upcalls` are those of the kernel's datapaths, by their error; None where
    they were not counted.
    `round`: the window is a round of one thread, whose time alone is in `threads`.
    `verdict`: what was found, worst first; empty when that was nothing, and
    without accounting.
    `timeline` is everything that the threads did, thread by thread, and by the time that it
    began; None if it was not asked for.
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
    timeline: Sequence[Slice] | None = None
    round: Round | None = None
    processes: int = 1


class SkippedWindow(Struct, frozen=True):
    """A window between two triggers that is shorter than asked for: only when it was."""

    window: Window
