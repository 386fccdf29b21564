"""A Sample of a suspicious iteration in which a PMD thread kept its CPU.

Open vSwitch logs when it ended and how long it was; nothing in the kernel says so. What the
thread did meanwhile follows from readings before and after: how often and for how long it was off
its CPU, and its time in the kernel.
"""

import datetime
import os
from collections.abc import Collection

from msgspec import Struct

from kernel_delay.capture.plan import RoundPlan
from kernel_delay.capture.rounds.profiles import FREQUENCY
from kernel_delay.capture.rounds.round_events import RoundEvents
from kernel_delay.capture.rounds.sample import Sources
from kernel_delay.capture.rounds.threads import Readings, ReportedThread, ThreadReading
from kernel_delay.host.target import LONGEST_COMM, ProcessTarget
from kernel_delay.loader._records import lib
from kernel_delay.model import RelatedLine, Round, Sample, Target, Thread, ThreadTime, Window

OWN_SHARE = 0.5
"""Of an iteration that has a record: its own code surely took that."""

# Fewer say little of where it was. The kernel's count has the time between the readings too.
LEAST_SAMPLES = 5

# A line has whole milliseconds, and comes some iterations later.
LINE_NS = 2_000_000

# What is sampled stays until a line may say that it is of an iteration.
KEPT_NS = 2_000_000_000

# For so long after its last line a thread is sampled.
SAMPLED_NS = 10_000_000_000


class _Around(Struct, frozen=True):
    """A thread, as of the readings before and after an iteration."""

    before: ThreadReading
    after: ThreadReading
    then: ReportedThread
    now: ReportedThread


class KeptIterations:
    """Makes Samples of the iterations that a log calls suspicious."""

    def __init__(
        self, target: ProcessTarget, plan: RoundPlan, sources: Sources, readings: Readings
    ) -> None:
        """Of threads of `target`; `readings` has what they did meanwhile."""
        self._target = target
        self._plan = plan
        self._sources = sources
        self._readings = readings
        self._sampled_until_ns = 0
        self._reported: dict[int, tuple[int, int]] = {}

    def oldest_ns(self, oldest_ns: int, now_ns: int) -> int:
        """Return from when on samples are kept; `oldest_ns` if no PMD thread is sampled."""
        return min(oldest_ns, now_ns - KEPT_NS) if now_ns < self._sampled_until_ns else oldest_ns

    def sampled(self, reading: ThreadReading) -> Collection[int]:
        """Return the threads that are to be sampled all the time: all PMD threads, or none."""
        if reading.time_ns >= self._sampled_until_ns:
            return ()
        name = self._plan.off_cpu_name.decode()
        rounds = [reported.rounds for reported in reading.threads.values()]
        return [each.tid for each in rounds if each.name.startswith(name)]

    def sample(self, line: RelatedLine) -> Sample | None:
        """Return the Sample of a line's iteration; None unless its own code surely took half."""
        length_ns = 1000 * (line.length_us or 0)
        now = datetime.datetime.now(datetime.UTC)
        now_ns = int(lib.monotonic_ns())
        self._sampled_until_ns = now_ns + SAMPLED_NS
        stop_ns = now_ns - round((now - line.time).total_seconds() * 1e9)
        start_ns = stop_ns - length_ns
        around = self._around(line.thread, start_ns - LINE_NS, stop_ns + LINE_NS)
        if around is None or not length_ns:
            return None
        tid = around.now.rounds.tid
        events = self._events(tid, start_ns, stop_ns)
        kernel_ns = around.now.system_ns - around.then.system_ns
        if events is not None and (share := _kernel_share(events)) is not None:
            kernel_ns = min(kernel_ns, round(share * length_ns))
        own_ns = length_ns - _off_cpu_ns(around) - kernel_ns
        if own_ns < OWN_SHARE * length_ns or self._is_suppressed(tid, stop_ns, length_ns):
            return None
        self._reported[tid] = stop_ns, length_ns
        return self._sample(line, around, (start_ns, stop_ns), own_ns, now, events)

    def _events(self, tid: int, start_ns: int, stop_ns: int) -> RoundEvents | None:
        if self._sources.events is None:
            return None
        self._sources.events.take(int(lib.monotonic_ns()))
        return self._sources.events.of_round(tid, start_ns, stop_ns)

    def _is_suppressed(self, tid: int, stop_ns: int, length_ns: int) -> bool:
        last_ns, longest_ns = self._reported.get(tid, (0, 0))
        return stop_ns - last_ns < self._plan.gap_ns and length_ns <= longest_ns

    def _around(self, name: str, start_ns: int, stop_ns: int) -> _Around | None:
        """Return the thread of that name around that time; None if that is not known."""
        before, after = self._readings.before(start_ns), self._readings.after(stop_ns)
        if before is None or after is None or before.time_ns > start_ns:
            return None
        found = [
            identity
            for identity, reported in after.threads.items()
            if reported.rounds.name == name[:LONGEST_COMM] and identity in before.threads
        ]
        # A thread that it made to write the log has the same name, and a higher number.
        if not found:
            return None
        identity = min(found)
        return _Around(before, after, before.threads[identity], after.threads[identity])

    def _sample(
        self,
        line: RelatedLine,
        around: _Around,
        window: tuple[int, int],
        own_ns: int,
        now: datetime.datetime,
        events: RoundEvents | None,
    ) -> Sample:
        start_ns, stop_ns = window
        length_ns = stop_ns - start_ns
        rounds, uname = around.now.rounds, os.uname()
        profile = events.profile if events else ()
        return Sample(
            schema="kernel-delay/3",
            target=Target(pid=self._target.pid, comm=self._target.comm, exe=self._target.exe),
            kernel=uname.release,
            host=uname.nodename,
            window=Window(
                start_ns=start_ns,
                stop_ns=stop_ns,
                duration_ns=length_ns,
                start_time=line.time - datetime.timedelta(microseconds=length_ns / 1000),
                collected_time=now,
                ended_by="iteration",
            ),
            threads=(_thread(rounds.tid, rounds.name, own_ns, length_ns),),
            syscall_events=events.events if events else None,
            stacks=events.stacks if events else (),
            lost=self._sources.lost_between(around.before, around.after),
            unseen=tuple(self._sources.programs.unseen),
            round=Round(
                tid=rounds.tid,
                name=rounds.name,
                number=0,
                others_start_ns=around.before.time_ns,
                others_stop_ns=around.after.time_ns,
                related=(line,),
                profile=profile,
                profile_hz=FREQUENCY if profile else None,
                profile_start_ns=start_ns if profile else None,
            ),
        )


def _kernel_share(events: RoundEvents) -> float | None:
    """Return the share of samples in the kernel; None if there are too few."""
    samples = sum(each.samples for each in events.profile)
    kernel = sum(each.samples for each in events.profile if each.kernel_stack is not None)
    return kernel / samples if samples >= LEAST_SAMPLES else None


def _off_cpu_ns(around: _Around) -> int:
    """Return for how long a thread was off its CPU at most, between two readings.

    Each of these times is known by its power of two alone.
    """
    then, now = around.then.rounds, around.now.rounds
    counts = [has - had for had, has in zip(then.lengths, now.lengths, strict=True)]
    closed_ns = sum(count * (2 << power) for power, count in enumerate(counts))
    open_ns = 0 if now.open_since_ns is None else around.after.time_ns - now.open_since_ns
    return closed_ns + open_ns


def _thread(tid: int, name: str, own_ns: int, length_ns: int) -> Thread:
    """Return the thread; what may not be of its own code is not accounted for."""
    time = ThreadTime(
        user_ns=own_ns,
        kernel_ns=0,
        hard_irq_ns=0,
        soft_irq_ns=0,
        ready_ns=0,
        blocked_ns=0,
        stopped_ns=0,
        absent_ns=0,
        unaccounted_ns=length_ns - own_ns,
    )
    return Thread(
        tid=tid,
        name=name,
        exited=False,
        syscalls=(),
        long_poll=None,
        run=None,
        ready=None,
        stopped=None,
        hard_irqs=(),
        soft_irqs=(),
        time=time,
    )
