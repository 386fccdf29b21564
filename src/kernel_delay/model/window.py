"""The time that was measured, what opened and closed it, and what was lost in it."""

import datetime
from operator import add, sub
from typing import Annotated, Literal, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

WallClock = Annotated[datetime.datetime, Meta(tz=True)]
"""A time of day and its zone, RFC 3339 in JSON."""


# What closed a window: the time asked for, a trigger, the user (Ctrl-C), the
# process's exit, that its stop trigger did not come in the time allowed, or, where the window
# is a round, the thread's next poll.
EndedBy = Literal["time", "trigger", "interrupt", "exit", "timeout", "poll", "switch", "iteration"]


class TriggerHit(Struct, frozen=True):
    """A trigger that opened or closed a window, and the thread that hit it.

    Attributes:
        trigger: The trigger, as in the option.
        tid: The thread. A trigger in the kernel can be hit by any process. 0: not in the PID
            namespace of the tool.
        comm: The name of the thread.
    """

    trigger: str
    tid: int
    comm: str


class Window(Struct, frozen=True):
    """The time that was measured: [start_ns, stop_ns) of CLOCK_MONOTONIC.

    Attributes:
        start_ns: The start (CLOCK_MONOTONIC).
        stop_ns: The end (CLOCK_MONOTONIC).
        duration_ns: The length, in ns.
        start_time: The wall clock at `start_ns`, in UTC. If the clock was set since then, as it
            would have been by the new setting.
        collected_time: The wall clock when the results were read, in UTC.
        ended_by: What closed the window. "exit": the process or the thread ended. "timeout": a
            trigger was not hit. In a record of `watch`, "poll" is the thread's next poll, and
            "switch" the return of a PMD thread to its CPU. "iteration": the end of a PMD thread's
            iteration, by Open vSwitch's log.
        start_trigger: The trigger that opened the window. None: no trigger did.
        stop_trigger: The trigger that closed the window. None: no trigger did.
    """

    start_ns: int
    stop_ns: int
    duration_ns: int
    start_time: WallClock
    collected_time: WallClock
    ended_by: EndedBy
    start_trigger: TriggerHit | None = None
    stop_trigger: TriggerHit | None = None


class Untraced(Struct, frozen=True):
    """A process that keeps programs from running while it has the CPU: no switch from it was seen.

    Attributes:
        pid: The process, by its number in the initial PID namespace.
        comm: The name of the process. Empty: not known.
        missed: Missed context switches, each right behind a seen switch to that process.
    """

    pid: int
    comm: str
    missed: int


class Lost(Struct, frozen=True):
    """What could not be recorded, by reason.

    All are zero when the Sample is complete.

    Attributes:
        dropped_records: Records of threads, system calls or interrupts that found no room.
        missed_events: Kernel events for which a program did not run, or could not reach the
            thread's state.
        missed_triggers: Hits of the start trigger for which no window was free.
        clamped_lengths: Intervals that ended before they began by the clocks of two CPUs. They
            count as 0 ns.
        events: Single system calls for which the buffer had no room.
        shorter_events: Single system calls left out because there were too many longer ones.
        stacks: Single system calls without a stack, because the buffer or the table of stacks was
            full.
        truncated_stacks: User stacks without their outer functions, because the copy did not
            contain them.
        cut_stacks: Those of `truncated_stacks` whose copy had the full requested size.
        failed_unwinds: User stacks that end early because the caller cannot be determined.
        upcalls: Upcalls that found no counter.
        timeline_interrupts: Slices of interrupts left out of the timeline.
        timeline_states: Slices of scheduler states left out of the timeline.
        timeline_modes: Slices of system calls and page faults left out of the timeline.
        missed_calls: Those of `missed_events` that are system calls or page faults.
        missed_switches: Those of `missed_events` that are scheduler events.
        missed_interrupts: Those of `missed_events` that are interrupts.
        missed_wakeups: Those of `missed_switches` that are wake-ups.
        missed_context_switches: Those of `missed_switches` that are context switches.
        missed_others_switches: Those of `missed_switches` that are context switches on a CPU that a
            thread waited for, by the kernel's count of them. One of a thread itself can be in
            `missed_context_switches` as well.
        missed_threads: Those of `missed_events` for which the program could not reach the thread's
            state.
        missed_by_recursion: Those of `missed_events` that the kernel counted: it does not run a
            program on a CPU where that program runs already. They can be of other processes.
        untraced: The process that explains some of `missed_switches`: no program runs while it has
            the CPU. None: there is no proof of one.
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
    missed_calls: int = 0
    missed_switches: int = 0
    missed_interrupts: int = 0
    missed_wakeups: int = 0
    missed_context_switches: int = 0
    missed_others_switches: int = 0
    missed_threads: int = 0
    missed_by_recursion: int = 0
    untraced: Untraced | None = None

    def __add__(self, other: Self) -> "Lost":
        """Return what was lost of both."""
        mine, others = self.untraced, other.untraced
        untraced = mine or others
        if mine and others and mine.pid == others.pid:
            untraced = replace(mine, missed=mine.missed + others.missed)
        return replace(Lost(*map(add, self._counts(), other._counts())), untraced=untraced)

    def __sub__(self, other: Self) -> "Lost":
        """Return what was lost since `other`, where both are of all time until then."""
        untraced, before = self.untraced, other.untraced
        if untraced and before and untraced.pid == before.pid:
            missed = untraced.missed - before.missed
            untraced = replace(untraced, missed=missed) if missed else None
        return replace(Lost(*map(sub, self._counts(), other._counts())), untraced=untraced)

    def counts(self) -> dict[str, int]:
        """Return what was lost, by field; without what was not."""
        *counted, _ = self.__struct_fields__
        found = zip(counted, self._counts(), strict=True)
        return {name: count for name, count in found if count}

    def _counts(self) -> list[int]:
        *counted, _ = self.__struct_fields__
        return [getattr(self, field) for field in counted]
