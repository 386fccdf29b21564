"""A watch: programs attached to a process for as long as it takes, a Sample a long round."""

import datetime
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from kernel_delay.capture.plan import EventPlan, RoundPlan, TriggerPoints, WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds.profiles import FREQUENCY, Profiles
from kernel_delay.capture.rounds.records import RoundRecords
from kernel_delay.capture.rounds.threads import (
    Reading,
    Readings,
    lengths_of,
    lost_between,
    others_between,
    told_threads,
)
from kernel_delay.capture.scheduling import with_scheduling
from kernel_delay.capture.threads.accounts import account_of
from kernel_delay.capture.threads.causes import with_causes
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.sleep_stacks import SleepStacks
from kernel_delay.capture.threads.sleeps import with_sleeps
from kernel_delay.capture.threads.thread_stats import (
    ThreadName,
    accounted_stats,
    name_of,
    text_of,
)
from kernel_delay.capture.windows.control import NEVER_NS, wait_for_programs
from kernel_delay.host.target import ProcessTarget
from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.waiting import Ended, watch
from kernel_delay.model import (
    Round,
    RoundTotals,
    Sample,
    Target,
    Thread,
    ThreadRounds,
    TriggerHit,
    Window,
)

if TYPE_CHECKING:
    from kernel_delay.capture.rounds.events import EventsOfRounds
    from kernel_delay.loader._records import RoundNotice

# How often the threads are asked what they do, as a share of the threshold, and its bounds.
READINGS_PER_THRESHOLD = 10
SHORTEST_TICK_NS = 100_000_000
LONGEST_TICK_NS = 1_000_000_000


class Watch:
    """Watches one process. Used as a context manager, it detaches at the end."""

    def __init__(
        self,
        target: ProcessTarget,
        plan: RoundPlan,
        events: EventPlan | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepare; entering loads and attaches.

        With `events` a record has its long calls with their stacks, and what the thread ran.
        `tell` is called with what the user should know of the process's files.
        """
        self._target = target
        self._plan = plan
        self._event_plan = events
        self._tell = tell
        self._closing = ExitStack()
        self._readings = Readings()
        self._ended: dict[str, ThreadRounds] = {}
        self._told = 0
        self._untold_before = 0
        self._missed_before = self._missed_ends = 0
        self.ended: Ended = "time"
        tick_ns = plan.threshold_ns // READINGS_PER_THRESHOLD
        self._tick_ns = min(max(tick_ns, SHORTEST_TICK_NS), LONGEST_TICK_NS)

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
                self._target.pid, windows, self._event_plan, rounds=self._plan
            )
            self._closing.enter_context(self._programs)
            profiles = Profiles(self._programs, self._plan.suspect_ns)
            self._profiles = self._closing.enter_context(profiles)
            self._notices = self._programs.round_notices()
            self._records = RoundRecords(self._programs)
            self._sleep_stacks = SleepStacks(self._programs.sleep_stacks)
            self._events = self._keep_events(self._event_plan)
            self._read()
            # From now on rounds count: with the one window that there is.
            lib.publish_window(self._programs.control, 0, NEVER_NS)
            self._missed_before = self._programs.missed_events()
            self._closing.enter_context(self._waiter)
            failing.pop_all()
        return self

    def give_up(self) -> str | None:
        """Do without what takes most time; return what that is, None if there is nothing left.

        Stacks first, and then nine of ten looks at the threads.
        """
        if self._events is not None:
            self._profiles.close()
            self._events.close()
            self._events = None
            return "stacks"
        if self._tick_ns < LONGEST_TICK_NS:
            self._tick_ns = LONGEST_TICK_NS
            return "frequent looks at the threads"
        return None

    def _keep_events(self, plan: EventPlan | None) -> "EventsOfRounds | None":
        if plan is None:
            return None
        # Symbols and their libraries are for events alone.
        from kernel_delay.capture.rounds.events import EventsOfRounds

        events = EventsOfRounds(self._programs, self._target.pid, plan, self._tell)
        self._closing.callback(events.close)
        return events

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Detach and unload."""
        self._closing.close()

    def rounds(
        self, tick: Callable[[], None] = lambda: None, time_ns: int | None = None
    ) -> Iterator[Sample]:
        """Yield a Sample of each round that is to be told, when it is over.

        SIGINT, SIGTERM, the process's exit and, unless that is None, `time_ns` end it: `ended`
        says which. `tick` is called a few times a second, when the threads were asked.
        """
        begun_ns = lib.monotonic_ns()
        next_ns = begun_ns + self._tick_ns
        while True:
            until_ns = next_ns if time_ns is None else min(next_ns, begun_ns + time_ns)
            ended = self._waiter.wait_to_read(self._notices, until_ns)
            yield from self._long_rounds()
            now_ns = lib.monotonic_ns()
            if now_ns >= next_ns or ended in ("interrupt", "exit"):
                reading = self._read()
                self._free_left(reading)
                self._look_closer(reading)
                tick()
                next_ns = lib.monotonic_ns() + self._tick_ns
            is_over = time_ns is not None and now_ns >= begun_ns + time_ns
            if ended in ("interrupt", "exit") or is_over:
                self.ended = ended or "time"
                return

    def totals(self) -> RoundTotals:
        """Return how all rounds went until the threads were asked last."""
        newest = self._readings.newest
        living = newest.threads.values() if newest else ()
        return RoundTotals(
            time_ns=newest.time_ns if newest else 0,
            threads=(*(told.rounds for told in living), *self._ended.values()),
            long=self._programs.long_rounds(),
            told=self._told,
            missed=self._programs.missed_rounds(),
            missed_events=self._programs.missed_events() - self._missed_before,
        )

    def _look_closer(self, reading: Reading) -> None:
        """Sample the threads whose rounds may become long; forget what is of no open round."""
        if self._events is None:
            return
        self._profiles.update(reading)
        begun = [told.rounds.open_since_ns for told in reading.threads.values()]
        oldest_ns = min((since for since in begun if since is not None), default=reading.time_ns)
        self._events.forget(min(oldest_ns, reading.time_ns - self._tick_ns))

    def _read(self) -> Reading:
        threads = told_threads(self._programs.thread_rounds())
        missed_events, dropped = self._programs.missed_events(), self._records.dropped()
        reading = Reading(lib.monotonic_ns(), threads, missed_events, dropped)
        self._readings.add(reading)
        return reading

    def _long_rounds(self) -> Iterator[Sample]:
        """Yield those of which there are notices, and give back the records of all notices."""
        told = list(self._notices.take())
        if not told:
            return
        wait_for_programs()
        if self._events is not None:
            self._events.take(lib.monotonic_ns())
        after: Reading | None = None
        numbers: list[int] = []
        samples: list[Sample] = []
        for data in told:
            notice = ffi.from_buffer("struct round_notice *", data)
            numbers.append(notice.record)
            if notice.kind != lib.ROUND_IS_LONG:
                self._note_end(notice)
                continue
            after = after or self._read()
            samples.append(self._sample(notice, after))
            self._told += 1
        self._records.free(numbers)
        yield from samples

    def _free_left(self, reading: Reading) -> None:
        """Give back the records of threads that ended without a notice."""
        missed_ends = self._programs.missed_ends()
        if missed_ends == self._missed_ends:
            return
        self._missed_ends = missed_ends
        left = self._records.left_by(reading.threads.keys(), max(reading.threads, default=0))
        wait_for_programs()
        self._records.free(left)

    def _note_end(self, notice: "RoundNotice") -> None:
        """Add the rounds of a thread that ended to those of its name."""
        name = text_of(notice.comm)
        known = self._ended.get(name)
        lengths = lengths_of(notice)
        if known is not None:
            lengths = tuple(one + more for one, more in zip(known.lengths, lengths, strict=True))
        longest_ns = max(notice.longest_ns, known.longest_ns if known else 0)
        self._ended[name] = ThreadRounds(0, name, lengths, longest_ns)

    def _sample(self, notice: "RoundNotice", after: Reading) -> Sample:
        start_ns, stop_ns = notice.start_ns, notice.stop_ns
        parts = self._records.of_round(notice.record, notice.round)
        thread = self._thread(notice, parts)
        before = self._readings.before(start_ns) or after
        uname = os.uname()
        now = datetime.datetime.now(datetime.UTC)
        since_start_ns = int(lib.monotonic_ns()) - start_ns
        # Rounds of several threads are open at once: what was lost may be of each of them.
        lost = lost_between(before, after)
        events = self._events and self._events.of_round(notice.tid, start_ns, stop_ns)
        profiled_ns = self._profiles.began_ns(notice.tid, start_ns)
        untold = self._programs.long_rounds() - self._told - 1
        newly_untold = max(0, untold - self._untold_before)
        self._untold_before = max(self._untold_before, untold)
        return Sample(
            schema="kernel-delay/2",
            target=Target(pid=self._target.pid, comm=self._target.comm, exe=self._target.exe),
            kernel=uname.release,
            host=uname.nodename,
            window=Window(
                start_ns=start_ns,
                stop_ns=stop_ns,
                duration_ns=stop_ns - start_ns,
                start_time=now - datetime.timedelta(microseconds=since_start_ns / 1000),
                collected_time=now,
                ended_by="trigger" if self._plan.start else "poll",
                start_trigger=self._hit(self._plan.start, notice),
                stop_trigger=self._hit(self._plan.stop, notice),
            ),
            threads=with_scheduling((thread,), stop_ns - start_ns),
            syscall_events=events.events if events else None,
            stacks=events.stacks if events else (),
            lost=lost + events.lost if events else lost,
            round=Round(
                tid=notice.tid,
                name=thread.name,
                number=notice.round,
                untold=newly_untold,
                others_start_ns=before.time_ns,
                others_stop_ns=after.time_ns,
                others=others_between(before, after, notice.identity),
                profile=events.profile if events else (),
                profile_hz=None if profiled_ns is None else FREQUENCY,
                profile_start_ns=profiled_ns,
            ),
        )

    @staticmethod
    def _hit(trigger: TriggerPoints | None, notice: "RoundNotice") -> TriggerHit | None:
        if trigger is None:
            return None
        return TriggerHit(trigger.text, notice.tid, text_of(notice.comm))

    def _thread(self, notice: "RoundNotice", parts: ThreadRecords) -> Thread:
        window = notice.start_ns, notice.stop_ns
        name = name_of(parts.threads[0]) if parts.threads else _name(notice)
        account, _ = account_of(*window, parts, None)
        thread = accounted_stats(name, parts, account, self._programs.sees_faults)
        names = self._readings.names()
        stacks = self._sleep_stacks
        thread = with_causes(thread, parts, None, {}, names.get, stacks, window)
        thread = with_sleeps(thread, parts, None, stacks, window)
        return replace(thread, tid=notice.tid)


def _name(notice: "RoundNotice") -> ThreadName:
    return ThreadName(notice.tid, text_of(notice.comm))
