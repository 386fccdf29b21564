"""A thread's round: what it is, besides the window that it makes."""

from typing import Literal

from msgspec import Struct

from kernel_delay.model.syscalls import Histogram
from kernel_delay.model.window import Lost, WallClock


class OtherThread(Struct, frozen=True):
    """What another thread of the process did around a round, by the kernel's own counts.

    Attributes:
        tid: The thread ID.
        name: The thread name.
        ran_ns: On a CPU between `others_start_ns` and `others_stop_ns` of the round, in ns.
        runnable_ns: Waiting for a CPU in that time, in ns. The rest of the time the thread slept.
        activity: What it did at `others_stop_ns`: "on a CPU", "waiting for a CPU", a system call,
            or "ended". The counts of an ended thread are those of the last reading.
    """

    tid: int
    name: str
    ran_ns: int
    runnable_ns: int
    activity: str


LogMissing = Literal["stopped", "frozen", "throttled", "ready", "not_found"]


class LogLine(Struct, frozen=True):
    """The line of Open vSwitch's log for a round.

    The figures are those of Open vSwitch (lib/timeval.c:log_poll_interval()).

    Attributes:
        time: The time of the line, to the millisecond.
        thread: The thread that the line names.
        length_ms: The length of the iteration, in ms.
        user_ms: User time by getrusage(2), in ms. None: not in the line.
        system_ms: System time by getrusage(2), in ms. None: not in the line.
    """

    time: WallClock
    thread: str
    length_ms: int
    user_ms: int | None = None
    system_ms: int | None = None


class RelatedLine(Struct, frozen=True):
    """A further line of Open vSwitch's log that a round explains.

    Attributes:
        time: The time of the line, to the millisecond.
        thread: The thread that wrote the line. Empty: the main thread.
        what: "quiesce": `thread` waited for `slow` to quiesce (lib/ovs-rcu.c). "dump": a slow flow
            dump (ofproto/ofproto-dpif-upcall.c). "iteration": a suspicious iteration of a PMD
            thread (lib/dpif-netdev-perf.c): it was off its CPU for half of it or more, or the
            record is of that iteration.
        length_ms: The length that the line reports, in ms.
        slow: The thread that caused the line. Unless it is a "quiesce": the same as `thread`.
        length_us: The length of an iteration, in µs. None: the line has whole milliseconds.
        reason: Why Open vSwitch calls an iteration suspicious. Empty: it is none.
    """

    time: WallClock
    thread: str
    what: Literal["quiesce", "dump", "iteration"]
    length_ms: int
    slow: str
    length_us: int | None = None
    reason: str = ""


class ProfiledStack(Struct, frozen=True):
    """A stack of the profile of a round.

    Attributes:
        samples: The number of profile samples with this stack.
        user_stack: The program's stack: an index into `stacks` of the Sample. None: it could not
            be taken.
        kernel_stack: The kernel's stack: an index into `stacks` of the Sample. None: the thread
            ran its program.
    """

    samples: int
    user_stack: int | None
    kernel_stack: int | None = None


class ThreadRounds(Struct, frozen=True):
    """The rounds of one thread since the start of the watch, and the thread's activity.

    Attributes:
        tid: The thread ID. 0: the sum of ended threads of one name.
        name: The thread name.
        lengths: Index i counts rounds from 2^i up to 2^(i+1) ns.
        longest_ns: The longest round, in ns.
        open_since_ns: The start of the open round (CLOCK_MONOTONIC). None: no round is open.
        activity: What the thread does, as in OtherThread.
    """

    tid: int
    name: str
    lengths: Histogram
    longest_ns: int
    open_since_ns: int | None = None
    activity: str = ""


class RoundTotals(Struct, frozen=True):
    """All rounds of a process up to a moment, and the long rounds without a record.

    Attributes:
        time_ns: The moment (CLOCK_MONOTONIC).
        threads: The threads, and the sums of ended threads.
        long: The number of long rounds.
        reported: Long rounds that have a record.
        missed: Long rounds that found no room.
        lost: Kernel events that were missed.
        suppressed: Long rounds that came too soon after a longer round (`--min-gap`).
    """

    time_ns: int
    threads: tuple[ThreadRounds, ...]
    long: int
    reported: int
    missed: int
    lost: Lost = Lost()
    suppressed: int = 0

    @property
    def left(self) -> int:
        """How many long rounds are still to be reported."""
        return max(0, self.long - self.reported - self.missed - self.suppressed)


class Round(Struct, frozen=True):
    """One iteration of a thread's event loop: from the return of a poll to the next poll.

    Attributes:
        tid: The thread ID.
        name: The thread name.
        number: The number of this round among the rounds of the thread. 0: an iteration that a
            log has.
        suppressed: Long rounds since the previous record that have no record, because they came too
            soon after a longer round.
        others_start_ns: The start of the time that `others` covers (CLOCK_MONOTONIC).
        others_stop_ns: The end of the time that `others` covers (CLOCK_MONOTONIC).
        others: The other threads of the process that were active, longest run first.
        log: The line of Open vSwitch's log for this round. None: there is none.
        log_missing: Why that log has no line for this round, though one was expected. What held the
            thread as its poll returned, before Open vSwitch takes the time; or "not_found": not
            known. None: there is a line, or none was expected, or no log was read.
        related: Further lines of Open vSwitch's log that this round explains.
        profile: What the thread ran since `profile_start_ns`, most frequent stack first.
        profile_hz: Profile samples per second on a CPU. None: no profile.
        profile_start_ns: The start of the profile (CLOCK_MONOTONIC). None: no profile.
        slices_left_out: Slices of the timeline between the first and the last ones, which have no
            room.
        soft_irqs_start_ns: The start of the measurement of soft IRQs (CLOCK_MONOTONIC). Before it,
            their time counts as user and kernel time. None: the whole round.
    """

    tid: int
    name: str
    number: int
    suppressed: int = 0
    others_start_ns: int = 0
    others_stop_ns: int = 0
    others: tuple[OtherThread, ...] = ()
    log: LogLine | None = None
    log_missing: LogMissing | None = None
    related: tuple[RelatedLine, ...] = ()
    profile: tuple[ProfiledStack, ...] = ()
    profile_hz: int | None = None
    profile_start_ns: int | None = None
    slices_left_out: int = 0
    soft_irqs_start_ns: int | None = None
