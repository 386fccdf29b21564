"""A watch: programs attached to a process for as long as it takes, a Sample a long round."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from kernel_delay.capture.plan import SHORTEST_LOOK_NS, EventPlan, Plan, RoundPlan, WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds.iterations import KeptIterations
from kernel_delay.capture.rounds.late_hooks import late_returns, late_soft_irqs
from kernel_delay.capture.rounds.profiles import Profiles
from kernel_delay.capture.rounds.records import RoundRecords
from kernel_delay.capture.rounds.sample import RoundSamples, Sources
from kernel_delay.capture.rounds.threads import (
    EndedThreadRounds,
    Readings,
    ThreadReading,
    lengths_of,
    reported_threads,
)
from kernel_delay.capture.rounds.totals import TotalsReader
from kernel_delay.capture.session_options import UpcallsSoFar, count_upcalls
from kernel_delay.capture.threads import SleepStacks
from kernel_delay.capture.threads.thread_stats import text_of
from kernel_delay.capture.windows import NEVER_NS, wait_for_programs
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.target import ProcessTarget
from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.waiting import Ended, watch
from kernel_delay.model import Losses, Lost, RoundTotals, Sample, Upcalls

if TYPE_CHECKING:
    from kernel_delay.capture.chains import Follower
    from kernel_delay.capture.rounds.round_events import EventsOfRounds
    from kernel_delay.capture.rounds.timelines import RoundTimelines
    from kernel_delay.loader._records import RoundNotice

# How often the threads are asked what they do, as a share of the threshold, and its bounds.
READINGS_PER_THRESHOLD = 10
LONGEST_TICK_NS = 1_000_000_000

# How often it is looked whom the threads wait for, if at all.
FOLLOW_EACH_NS = 50_000_000

# How often what is over is forgotten of whom they waited for.
FORGETS_NS = 10_000_000_000

# Of a longer round it is not known whom its thread waited for in the beginning.
FOLLOWED_NS = 60_000_000_000

# For so long the last words of threads are waited for, and as often looked for.
LAST_NS = 1_000_000_000
LAST_LOOK_S = 0.005

# Of a storm of long rounds, how many are reported at once.
MOST_AT_ONCE = 64


class Watch:
    """Watches one process. Used as a context manager, it detaches at the end."""

    def __init__(
        self,
        target: ProcessTarget,
        plan: RoundPlan,
        events: EventPlan | None = None,
        notify: Callable[[str], None] = lambda text: None,
        *,
        totals: bool = False,
        open_upcall_counters: Callable[[int, Programs], UpcallsSoFar | None] | None = None,
    ) -> None:
        """Prepare; entering loads and attaches.

        With `events` a record has its long calls with their stacks, and what the thread ran.
        `notify` is called with what the user should know of the process's files. With `totals`
        it is known where all time of the threads went, and `open_upcall_counters` counts upcalls.
        """
        self._target = target
        self._plan = plan
        self._event_plan = events
        self._notify = notify
        self._keeps_totals = totals
        self._looks_ns = self._next_ns = 0
        self._forgot_ns = 0
        self._open_upcall_counters = open_upcall_counters
        self._closing = ExitStack()
        self._readings = Readings()
        self._ended = EndedThreadRounds()
        self._unreported_ends: set[int] = set()
        # A thread that has ended is dumped for as long as nobody has waited for its process.
        self._reported_ends: set[int] = set()
        self._reported = self._reported_late = 0
        self._missed_before, self._missed_ends = Lost(), 0
        self.ended: Ended = "time"
        tick_ns = plan.threshold_ns // READINGS_PER_THRESHOLD
        self._tick_ns = min(max(tick_ns, SHORTEST_LOOK_NS), LONGEST_TICK_NS)

    def __enter__(self) -> Self:
        """Load and attach the programs.

        Raises PermissionDeniedError or UnavailableError when the kernel refuses, and
        NoInputError when the process is gone.
        """
        with ExitStack() as failing:
            failing.callback(self._closing.close)
            self._waiter = watch(self._target.pid)
            self._closing.callback(self._waiter.close)
            windows = WindowPlan(NEVER_NS, start=self._plan.start, stop=self._plan.stop)
            self._programs = Programs(
                (self._target.pid,),
                Plan(windows, self._event_plan, rounds=self._plan, totals=self._keeps_totals),
            )
            self._closing.enter_context(self._programs)
            unix_sockets = UnixSockets((self._target.pid,))
            self._closing.callback(unix_sockets.close)
            suspect_ns = self._plan.suspect_ns
            profiles = self._closing.enter_context(Profiles(self._programs, suspect_ns))
            soft_irqs = self._closing.enter_context(late_soft_irqs(self._programs, suspect_ns))
            returns = self._closing.enter_context(late_returns(self._programs, suspect_ns))
            self._notices = self._programs.round_notices()
            self._sources = Sources(
                self._programs,
                RoundRecords(self._programs),
                profiles,
                soft_irqs,
                returns,
                SleepStacks(self._programs.sleep_stacks),
                unix_sockets,
            )
            seen = self._target, self._plan, self._sources, self._readings
            self._samples, self.iterations = RoundSamples(*seen), KeptIterations(*seen)
            self._thread_totals = TotalsReader(self._programs) if self._keeps_totals else None
            self._sources.events = self._keep_events(self._event_plan)
            upcalls, pid = self._open_upcall_counters, self._target.pid
            self._upcalls = count_upcalls(upcalls, pid, self._programs, self._closing, self._notify)
            self._sources.follower = self._follow() if self._plan.chains else None
            self._sources.timelines = self._keep_timelines()
            self._sources.has_timelines = self._sources.timelines is not None
            self._read()
            # From now on rounds count: with the one window that there is.
            lib.publish_window(self._programs.control, 0, NEVER_NS)
            self._missed_before = self._programs.missed()
            self._closing.enter_context(self._waiter)
            failing.pop_all()
        return self

    def give_up(self) -> str | None:
        """Do without what takes most time; return what that is, None if there is nothing left.

        Wait chains first, then timelines, then stacks, and then nine of ten looks at the threads.
        """
        given_up = self._sources.give_up()
        if given_up is not None:
            return given_up
        if self._tick_ns < LONGEST_TICK_NS:
            self._tick_ns = LONGEST_TICK_NS
            return "frequent looks at the threads"
        return None

    def give_up_stacks(self) -> bool:
        """Do without what takes most memory; return whether that was not done before."""
        return self._sources.give_up_stacks()

    def _follow(self) -> "Follower":
        from kernel_delay.capture.chains import Follower

        programs, pids = self._programs.chains(), (self._target.pid,)
        self._closing.callback(programs.close)
        return Follower(programs, pids, self._sources.unix_sockets, self._notify)

    def _keep_events(self, plan: EventPlan | None) -> "EventsOfRounds | None":
        if plan is None:
            return None
        # Symbols and their libraries are for events alone.
        from kernel_delay.capture.rounds.round_events import EventsOfRounds

        events = EventsOfRounds(self._programs, self._target.pid, plan, self._notify)
        self._closing.callback(events.close)
        return events

    def _keep_timelines(self) -> "RoundTimelines | None":
        if self._plan.max_slices is None:
            return None
        from kernel_delay.capture.rounds.timelines import RoundTimelines

        return RoundTimelines(self._programs)

    def __exit__(self, *_: object) -> None:
        """Detach and unload."""
        self._closing.close()

    def rounds(
        self, tick: Callable[[], None] = lambda: None, time_ns: int | None = None
    ) -> Iterator[Sample]:
        """Yield a Sample of each round that is to be reported, when it is over.

        SIGINT, SIGTERM, SIGHUP, the process's exit and, unless that is None, `time_ns` end it:
        `ended` says which. `tick` is called a few times a second, when the threads were asked.
        """
        begun_ns = lib.monotonic_ns()
        self._next_ns = begun_ns + self._tick_ns
        while True:
            until_ns = self._next_ns if time_ns is None else min(self._next_ns, begun_ns + time_ns)
            if self._sources.follower is not None:
                until_ns = min(until_ns, self._looks_ns)
            ended = self._waiter.wait_to_read(self._notices, until_ns)
            yield from self._long_rounds()
            if ended == "exit":
                yield from self._last_rounds()
            now_ns = lib.monotonic_ns()
            self._look_at_chains(now_ns)
            if now_ns >= self._next_ns or ended in ("interrupt", "exit"):
                reading = self._read()
                self._free_left(reading)
                self._look_closer(reading)
                tick()
                self._next_ns = lib.monotonic_ns() + self._tick_ns
            is_over = time_ns is not None and now_ns >= begun_ns + time_ns
            if ended in ("interrupt", "exit") or is_over:
                self.ended = ended or "time"
                return

    def keep_looking(self) -> None:
        """Ask the threads, if it is time: for whoever has a Sample and waits for something.

        Nothing is forgotten meanwhile, as there may be rounds of which no Sample was made yet.
        """
        now_ns = lib.monotonic_ns()
        self._look_at_chains(now_ns)
        if now_ns >= self._next_ns:
            self._read()
            self._next_ns = lib.monotonic_ns() + self._tick_ns

    def _look_at_chains(self, now_ns: int) -> None:
        if self._sources.follower is not None and now_ns >= self._looks_ns:
            self._sources.follower.look()
            self._looks_ns = lib.monotonic_ns() + FOLLOW_EACH_NS

    def _last_rounds(self) -> Iterator[Sample]:
        """Wait a moment for what threads report last.

        The process is gone as soon as the last of them has no number any more
        (kernel/exit.c:exit_notify()), which may be some time before that leaves its CPU.
        """
        until_ns = lib.monotonic_ns() + LAST_NS
        while self._unreported_ends and lib.monotonic_ns() < until_ns:
            time.sleep(LAST_LOOK_S)
            yield from self._long_rounds()

    def totals(self) -> RoundTotals:
        """Return how all rounds went until the threads were asked last, or by the newest record."""
        newest = self._readings.newest
        if newest is None or self._reported > newest.reported:
            newest = self._read()
        living = (
            reported.rounds
            for identity, reported in newest.threads.items()
            if identity not in self._reported_ends
        )
        return RoundTotals(
            time_ns=newest.time_ns,
            threads=(*living, *self._ended.sums()),
            long=newest.long,
            reported=self._reported,
            missed=newest.missed,
            suppressed=newest.suppressed,
            lost=self._programs.missed() - self._missed_before,
        )

    @property
    def thread_totals(self) -> TotalsReader:
        """What reads where all time of the threads went, if that is kept."""
        assert self._thread_totals is not None
        return self._thread_totals

    @property
    def needs_samples(self) -> bool:
        """Whether only samples show what threads ran in calls."""
        return self._programs.polls_only

    def suppressed(self) -> int:
        """Return how many long rounds came too soon after a longer one."""
        return self._programs.counter("suppressed_rounds")

    def unrecorded(self) -> int:
        """Return how many have no record: those, and at the end those that nothing reports."""
        counter = self._programs.counter
        return max(0, counter("long_rounds") - self._reported - counter("missed_rounds"))

    def upcalls(self) -> Upcalls | None:
        """Return what the kernel's datapath sent to user space; None if that is not counted."""
        return None if self._upcalls is None else self._upcalls.so_far()

    def losses(self) -> Losses:
        """Return what is not known of the process since it was watched."""
        return Losses(
            missed_events=(self._programs.missed() - self._missed_before).missed_events,
            dropped_records=self._sources.records.dropped(),
            missed_rounds=self._programs.counter("missed_rounds"),
            missed_ends=self._programs.counter("missed_totals"),
        )

    def _look_closer(self, reading: ThreadReading) -> None:
        """Sample the threads whose rounds may become long; forget what is of no open round."""
        self._sources.soft_irqs.update(reading)
        self._sources.returns.update(reading)
        begun = [reported.rounds.open_since_ns for reported in reading.threads.values()]
        oldest_ns = min((since for since in begun if since is not None), default=reading.time_ns)
        oldest_ns = min(oldest_ns, reading.time_ns - self._tick_ns)
        follower = self._sources.follower
        if follower is not None and reading.time_ns - self._forgot_ns >= FORGETS_NS:
            self._forgot_ns = reading.time_ns
            follower.forget(max(oldest_ns, reading.time_ns - FOLLOWED_NS), FOLLOWED_NS)
        if self._sources.events is None and not self._programs.polls_only:
            return
        self._sources.profiles.update(reading, self.iterations.sampled(reading))
        if self._sources.events is None:
            return
        self._sources.events.forget(self.iterations.oldest_ns(oldest_ns, reading.time_ns))

    def _read(self) -> ThreadReading:
        programs = self._programs
        # What a thread counts first is read last: there are no more long rounds than rounds.
        missed = programs.counter("missed_rounds")
        suppressed = programs.counter("suppressed_rounds")
        long = programs.counter("long_rounds")
        dumped = reported_threads(programs.thread_rounds())
        self._reported_ends &= dumped.keys()
        threads = {
            identity: reported
            for identity, reported in dumped.items()
            if identity not in self._reported_ends
        }
        lost = programs.missed() + Lost(dropped_records=self._sources.records.dropped())
        reading = ThreadReading(
            lib.monotonic_ns(),
            threads,
            lost,
            long=long,
            missed=missed,
            suppressed=suppressed,
            reported=self._reported,
        )
        self._readings.add(reading)
        self._unreported_ends |= {
            identity for identity, reported in threads.items() if any(reported.rounds.lengths)
        }
        return reading

    def _long_rounds(self) -> Iterator[Sample]:
        """Yield those of which there are notices, and give back the records of all notices."""
        reported = [ffi.from_buffer("struct round_notice *", data) for data in self._notices.take()]
        if not reported:
            return
        wait_for_programs()
        if self._sources.events is not None:
            self._sources.events.take(lib.monotonic_ns())
        ended = [notice for notice in reported if notice.kind == lib.ROUND_THREAD_ENDED]
        for notice in ended:
            self._ended.add(text_of(notice.comm), lengths_of(notice), notice.longest_ns)
            self._unreported_ends.discard(notice.identity)
            self._reported_ends.add(notice.identity)
        self._sources.free(ended)
        long = [notice for notice in reported if notice.kind != lib.ROUND_THREAD_ENDED]
        for first in range(0, len(long), MOST_AT_ONCE):
            yield from self._sampled(long[first : first + MOST_AT_ONCE])

    def _sampled(self, notices: "Sequence[RoundNotice]") -> Iterator[Sample]:
        after: ThreadReading | None = None
        samples: list[Sample] = []
        for notice in notices:
            if self._is_to_end():
                continue
            after = after or self._read()
            samples.append(self._samples.sample(notice, after))
            # The next one may be over before anybody looks.
            self._sources.returns.begin(after.time_ns)
            self._sources.profiles.keep(notice.tid, after.time_ns)
            self._reported += 1
        self._sources.free(notices)
        yield from samples

    def _is_to_end(self) -> bool:
        """Whether a signal came, and as many rounds were reported since as are to be."""
        if self._plan.most_late is None or not self._waiter.interrupted:
            return False
        self._reported_late += 1
        return self._reported_late > self._plan.most_late

    def _free_left(self, reading: ThreadReading) -> None:
        """Give back the records of threads that ended without a notice."""
        missed_ends = self._programs.counter("missed_ends")
        if missed_ends == self._missed_ends:
            return
        self._missed_ends = missed_ends
        living, newest = reading.threads.keys(), max(reading.threads, default=0)
        self._unreported_ends &= living
        wait_for_programs()
        self._sources.free_left(living, newest)
