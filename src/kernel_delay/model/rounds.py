"""A thread's round: what it is, besides the window that it makes."""

from typing import Literal

from msgspec import Struct

from kernel_delay.model.intervals import Histogram
from kernel_delay.model.window import WallClock


class OtherThread(Struct, frozen=True):
    """What another thread of the process did around a round, by the kernel's own counts.

    `ran_ns` it was on a CPU, and `runnable_ns` it waited for one; the rest it slept. They are of
    the time from `Round.others_start_ns` to `Round.others_stop_ns`. `doing` says what it did at
    that time's end: "on a CPU", "waiting for a CPU", or the system call that it slept in. One that
    had "ended" by then did so much at least: its counts are of when it was seen last.
    """

    tid: int
    name: str
    ran_ns: int
    runnable_ns: int
    doing: str


class LogLine(Struct, frozen=True):
    """What Open vSwitch's log says of a round: its own figures, and its own boundaries.

    `time` is the line's, of ms. The lengths are in ms, as lib/timeval.c:log_poll_interval()
    writes them: of the round, and what getrusage(2) has of the thread; None where it has not.
    """

    time: WallClock
    thread: str
    length_ms: int
    user_ms: int | None = None
    system_ms: int | None = None


class RelatedLine(Struct, frozen=True):
    """A line of Open vSwitch's log that a thread's round explains, beside that of its length.

    "quiesce": `thread` waited so long for `slow` to quiesce, as lib/ovs-rcu.c says. "dump": it took
    that to dump flows, as ofproto/ofproto-dpif-upcall.c says; `slow` is `thread` itself. The main
    thread is "", and `time` and `length_ms` are as in LogLine.
    """

    time: WallClock
    thread: str
    what: Literal["quiesce", "dump"]
    length_ms: int
    slow: str


class ProfiledStack(Struct, frozen=True):
    """What a thread ran in `samples` of the samples that were taken of it.

    The stacks are places in the Sample's `stacks`: the program's, None if it could not be
    taken, and the kernel's, None if it ran its program.
    """

    samples: int
    user_stack: int | None
    kernel_stack: int | None = None


class ThreadRounds(Struct, frozen=True):
    """How the rounds of one thread went since it was watched, and what it does.

    `lengths` counts them by length: of the bucket with index i those from 2^i ns on.
    `open_since_ns` is when the round began that is open; None if none is. `tid` is 0 for the
    sum of the threads of a name that have ended. `doing` is as in OtherThread.
    """

    tid: int
    name: str
    lengths: Histogram
    longest_ns: int
    open_since_ns: int | None = None
    doing: str = ""


class RoundTotals(Struct, frozen=True):
    """All rounds of a process by `time_ns`, and what of the long ones is not recorded.

    `threads` are those that were there then, and the sums of those that had ended. Of `long`
    rounds `told` were yielded, for `missed` there was no room, and `untold` came too soon after a
    longer one. `missed_events` are kernel events.
    """

    time_ns: int
    threads: tuple[ThreadRounds, ...]
    long: int
    told: int
    missed: int
    missed_events: int
    untold: int = 0

    @property
    def left(self) -> int:
        """How many long rounds are still to be told."""
        return max(0, self.long - self.told - self.missed - self.untold)


class Round(Struct, frozen=True):
    """A thread's way from a poll's return to its next poll.

    `number` counts the thread's rounds since it was watched. `untold` counts the long
    rounds of the process since the record before this one of which there is none: they were
    no longer than that, and came too soon after it. `others` are the process's other threads that
    did anything, those that ran longest first; the two times bound what they are of, which is
    somewhat more than the round. `log` is the line of Open vSwitch's log for this round, and
    `related` are others that it explains.
    `profile` is what the thread ran, `profile_hz` times in a second that it was on a CPU, since
    the round was long already: from `profile_start_ns` on. The most frequent is the first.
    Of a timeline the round's first slices are kept, and its last: `slices_left_out` are between.
    Soft IRQs are told from `soft_irqs_start_ns` on, None: from the round's start on; until then
    they are in the thread's own time.
    """

    tid: int
    name: str
    number: int
    untold: int = 0
    others_start_ns: int = 0
    others_stop_ns: int = 0
    others: tuple[OtherThread, ...] = ()
    log: LogLine | None = None
    related: tuple[RelatedLine, ...] = ()
    profile: tuple[ProfiledStack, ...] = ()
    profile_hz: int | None = None
    profile_start_ns: int | None = None
    slices_left_out: int = 0
    soft_irqs_start_ns: int | None = None
