"""Each thread's rounds as the programs dump them now and then, and what follows from that."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.capture.threads.counting import is_frozen
from kernel_delay.capture.threads.thread_stats import ThreadName, syscall_of, text_of
from kernel_delay.capture.windows import NEVER_NS
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import Histogram, Lost, OtherThread, ThreadRounds

if TYPE_CHECKING:
    from kernel_delay.loader._records import RoundNotice, ThreadState
    from kernel_delay.loader._records import ThreadRounds as ThreadRoundsRecord

# Readings that are kept, beside those before rounds that are open: the newest, and of older ones
# the fewer, the older they are. A thread that ended in a long round is among these.
MOST_READINGS = 32

# Of those before open rounds. A thread that sleeps elsewhere than in a poll is in one for hours.
MOST_BEFORE_OPEN = 32

# Of threads that have ended. The rest has a name that no thread can have: it is too long.
MOST_NAMES = 256
OTHER_NAMES = "threads of other names"

# What a thread does that is not there any more.
ENDED = "ended"

ACTIVITY: Mapping[int, str] = {
    lib.STATE_RUNNING: "on a CPU",
    lib.STATE_READY_WOKEN: "waiting for a CPU",
    lib.STATE_READY_PREEMPTED: "waiting for a CPU",
    lib.STATE_STOPPED: "stopped",
    lib.STATE_THROTTLED: "throttled",
    lib.STATE_FROZEN: "frozen",
}


class ReportedThread(Struct, frozen=True):
    """A thread as the programs report it: its rounds, its id in its own namespace, its CPU time.

    `ran_ns`, `runnable_ns` and `system_ns` are the kernel's own counts since the thread was made.
    """

    own_tid: int
    rounds: ThreadRounds
    ran_ns: int
    runnable_ns: int
    system_ns: int = 0


def reported_threads(data: bytes) -> dict[int, ReportedThread]:
    """Return what each struct thread_rounds in `data` says, by the thread's identity."""
    return {
        reported.identity: ReportedThread(
            own_tid=reported.own_tid,
            rounds=ThreadRounds(
                tid=reported.tid,
                name=text_of(reported.comm),
                lengths=lengths_of(reported),
                longest_ns=reported.longest_ns,
                open_since_ns=reported.start_ns if reported.stop_ns == NEVER_NS else None,
                activity=_activity(reported.now),
            ),
            ran_ns=reported.ran_ns,
            runnable_ns=reported.runnable_ns,
            system_ns=reported.system_ns,
        )
        for reported in ffi.from_buffer("struct thread_rounds[]", data)
    }


def lengths_of(reported: "ThreadRoundsRecord | RoundNotice") -> Histogram:
    """Return the lengths that a struct thread_rounds or round_notice counts."""
    return tuple(ffi.unpack(reported.lengths, lib.HISTOGRAM_BUCKETS))


def _activity(now: "ThreadState") -> str:
    if is_frozen(now):
        return ACTIVITY[lib.STATE_FROZEN]
    if now.state == lib.STATE_BLOCKED:
        if now.mode != lib.MODE_SYSCALL or now.syscall == lib.NO_SYSCALL:
            return "asleep"
        call = syscall_of(now.syscall)
        return call.name or f"system call {call.number}"
    return ACTIVITY.get(now.state, "not known")


class EndedThreadRounds:
    """The rounds of threads that have ended, summed up by their names.

    Names may be numbered, and there may be ever more of them: the rest is one sum.
    """

    def __init__(self) -> None:
        """None has."""
        self._by_name: dict[str, ThreadRounds] = {}

    def add(self, name: str, lengths: Histogram, longest_ns: int) -> None:
        """Add the rounds of one."""
        if name not in self._by_name and len(self._by_name) >= MOST_NAMES:
            name = OTHER_NAMES
        known = self._by_name.get(name)
        if known is not None:
            lengths = tuple(one + more for one, more in zip(known.lengths, lengths, strict=True))
            longest_ns = max(longest_ns, known.longest_ns)
        self._by_name[name] = ThreadRounds(0, name, lengths, longest_ns)

    def sums(self) -> tuple[ThreadRounds, ...]:
        """Return them, one a name."""
        return tuple(self._by_name.values())


class ThreadReading(Struct, frozen=True):
    """What the programs reported of all threads at one time.

    And what was `lost` until then: events missed, and records for which there was no room.
    Of `long` rounds by then `reported` have a record, for `missed` there was no room, and
    `suppressed` came too soon after a longer one.
    """

    time_ns: int
    threads: Mapping[int, ReportedThread]
    lost: Lost = Lost()
    long: int = 0
    missed: int = 0
    suppressed: int = 0
    reported: int = 0


class Readings:
    """The last readings, the older the fewer, and the last one before each open round began."""

    def __init__(self) -> None:
        """Have none."""
        self._readings: deque[ThreadReading] = deque()
        self._before_open = 0

    def add(self, reading: ThreadReading) -> None:
        """Keep a newer one."""
        self._readings.append(reading)
        if len(self._readings) > MOST_READINGS + self._before_open:
            self._thin()

    def _thin(self) -> None:
        """Leave out every second of the older half, unless it is the last before an open round."""
        readings = list(self._readings)
        older, newer = readings[: -MOST_READINGS // 2], readings[-MOST_READINGS // 2 :]
        thinned = older[::2]
        kept = {reading.time_ns: reading for reading in thinned}
        # A round that has just ended is reported soon: it is open in one of the newer ones.
        needed = {found.time_ns: found for found in self._before_rounds_in(newer)}
        for time_ns in _spread(sorted(needed), readings[-1].time_ns):
            kept[time_ns] = needed[time_ns]
        self._before_open = len(kept) - len(thinned)
        self._readings = deque([*(kept[time_ns] for time_ns in sorted(kept)), *newer])

    def _before_rounds_in(self, readings: Sequence[ThreadReading]) -> Iterator[ThreadReading]:
        """Yield the last older reading before each round that is open in one of these."""
        begun = {
            reported.rounds.open_since_ns
            for reading in readings
            for reported in reading.threads.values()
        }
        for time_ns in begun:
            if time_ns is not None and time_ns < readings[0].time_ns:
                found = self.before(time_ns)
                if found is not None:
                    yield found

    def kept(self) -> Iterator[ThreadReading]:
        """Yield those that are kept, the oldest first."""
        yield from self._readings

    @property
    def newest(self) -> ThreadReading | None:
        """The last one."""
        return self._readings[-1] if self._readings else None

    def names(self) -> dict[int, ThreadName]:
        """Return the threads by their ids in their own PID namespace, also some that ended."""
        return {
            reported.own_tid: ThreadName(
                reported.rounds.tid, reported.rounds.name, own_tid=reported.own_tid
            )
            for reading in self._readings
            for reported in reading.threads.values()
        }

    def last_seen(self, before: ThreadReading, after: ThreadReading) -> dict[int, ReportedThread]:
        """Return the threads that were there from one reading to the other, as seen last."""
        seen: dict[int, ReportedThread] = {}
        for reading in self._readings:
            if before.time_ns <= reading.time_ns <= after.time_ns:
                seen.update(reading.threads)
        seen.update(after.threads)
        return seen

    def before(self, time_ns: int) -> ThreadReading | None:
        """Return the last one from before that time; else the first of all."""
        found = None
        for reading in self._readings:
            if found is None or reading.time_ns <= time_ns:
                found = reading
        return found

    def after(self, time_ns: int) -> ThreadReading | None:
        """Return the first one from that time on; None if there is none."""
        return next((each for each in self._readings if each.time_ns >= time_ns), None)


def _spread(times_ns: list[int], now_ns: int) -> list[int]:
    """Return at most MOST_BEFORE_OPEN of these times, which are sorted: the older, the fewer."""
    while len(times_ns) > MOST_BEFORE_OPEN:
        # Without one, rounds of its age have the one before it: that matters least for old ones.
        gaps = (
            ((after - before) / (now_ns - after + 1), place)
            for place, (before, after) in enumerate(pairwise(times_ns), 1)
        )
        _, place = min(gaps)
        times_ns = times_ns[:place] + times_ns[place + 1 :]
    return times_ns


def lost_between(before: ThreadReading, after: ThreadReading) -> Lost:
    """Return what was lost from one reading to the other: any round meanwhile may lack it."""
    return after.lost - before.lost


def others_between(
    before: ThreadReading, after: ThreadReading, seen: Mapping[int, ReportedThread], identity: int
) -> tuple[OtherThread, ...]:
    """Return what the threads but that one did from one reading to the other, if anything.

    `seen` is as of Readings.last_seen(): one that has ended is as it was seen last.
    """
    found = []
    for other, last in seen.items():
        if other == identity:
            continue
        then = before.threads.get(other)
        ran_ns = last.ran_ns - (then.ran_ns if then else 0)
        runnable_ns = last.runnable_ns - (then.runnable_ns if then else 0)
        if ran_ns or runnable_ns:
            rounds = last.rounds
            activity = rounds.activity if other in after.threads else ENDED
            found.append(OtherThread(rounds.tid, rounds.name, ran_ns, runnable_ns, activity))
    found.sort(key=lambda each: (-each.ran_ns, -each.runnable_ns, each.tid))
    return tuple(found)
