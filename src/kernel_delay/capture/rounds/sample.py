"""A Sample of each long round, from what a watch has open."""

import datetime
import os
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.capture.plan import RoundPlan, TriggerPoints
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds.late_hooks import LateHooks
from kernel_delay.capture.rounds.profiles import FREQUENCY, Profiles
from kernel_delay.capture.rounds.records import RoundRecords
from kernel_delay.capture.rounds.threads import (
    Readings,
    ThreadReading,
    lengths_of,
    lost_between,
    others_between,
)
from kernel_delay.capture.stops import state_of_round
from kernel_delay.capture.threads import SleepStacks
from kernel_delay.capture.threads.accounts import account_of
from kernel_delay.capture.threads.causes import with_cpu_takers, with_lock_waits
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.sleeps import with_sleeps
from kernel_delay.capture.threads.task_times import counted_since, with_scheduling
from kernel_delay.capture.threads.thread_stats import ThreadName, accounted_stats, name_of, text_of
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.target import ProcessTarget
from kernel_delay.loader._records import lib
from kernel_delay.model import (
    EndedBy,
    Lost,
    Round,
    Sample,
    SystemState,
    Target,
    Thread,
    TriggerHit,
    Window,
)

if TYPE_CHECKING:
    from kernel_delay.capture.chains import Follower
    from kernel_delay.capture.rounds.round_events import EventsOfRounds
    from kernel_delay.capture.rounds.timelines import RoundTimelines, TimelineOfRound
    from kernel_delay.loader._records import RoundNotice


class Sources(Struct):
    """What a watch has open.

    Fields:
        programs: the programs.
        records: the records of rounds.
        profiles: what samples threads whose rounds may become long.
        soft_irqs: what has soft IRQs reported meanwhile.
        returns: what has calls be events then, if polls alone are hooked.
        sleep_stacks: where in the kernel threads slept.
        unix_sockets: who has the other ends of sockets.
        follower: whom threads wait for; None: they are not followed, or not any more.
        events: single calls; None: they are not kept, or not any more.
        timelines: the timelines of rounds; None: there are none.
        has_timelines: whether they are kept still.
    """

    programs: Programs
    records: RoundRecords
    profiles: Profiles
    soft_irqs: LateHooks
    returns: LateHooks
    sleep_stacks: SleepStacks
    unix_sockets: UnixSockets
    follower: "Follower | None" = None
    events: "EventsOfRounds | None" = None
    timelines: "RoundTimelines | None" = None
    has_timelines: bool = False

    def lost_between(self, before: ThreadReading, after: ThreadReading) -> Lost:
        """Return what was lost between two readings, for the Sample that is made now.

        Rounds of several threads are open at once: it may be of each of them.
        """
        lost = lost_between(before, after)
        return lost if self.events is None else lost + self.events.newly_lost()

    def give_up(self) -> str | None:
        """Do without what takes most time; return what that is, None if there is nothing left."""
        if self.follower is not None:
            self.follower.close()
            self.follower = None
            return "wait chains"
        if self.has_timelines:
            self.programs.report_no_timelines()
            self.has_timelines = False
            return "timelines"
        return "stacks" if self.give_up_stacks() else None

    def give_up_stacks(self) -> bool:
        """Do without what takes most memory; return whether that was not done before."""
        if self.events is None:
            return False
        if not self.programs.polls_only:
            self.profiles.close()
        self.returns.end()
        self.events.close()
        self.events = None
        return True

    def free(self, notices: "Sequence[RoundNotice]") -> None:
        """Give back the records, and timelines, of these."""
        self.records.free([notice.record for notice in notices])
        if self.timelines is not None:
            self.timelines.free([notice.timeline for notice in notices])

    def free_left(self, living: Container[int], newest: int) -> None:
        """Give back those of threads that are not among these, up to the newest."""
        self.records.free(self.records.left_by(living, newest))
        if self.timelines is not None:
            self.timelines.free(self.timelines.left_by(living, newest))


class RoundSamples:
    """Makes the Sample of each long round."""

    def __init__(
        self, target: ProcessTarget, plan: RoundPlan, sources: Sources, readings: Readings
    ) -> None:
        """Of rounds of `target`; `readings` has what its threads did meanwhile."""
        self._target = target
        self._plan = plan
        self._sources = sources
        self._readings = readings
        self._suppressed_before = 0

    def sample(self, notice: "RoundNotice", after: ThreadReading) -> Sample:
        """Return the Sample of a round that was reported, of which `after` was read since.

        There may be an earlier reading since: another round waited for its line of a log.
        """
        start_ns, stop_ns = notice.start_ns, notice.stop_ns
        after = self._readings.after(stop_ns) or after
        parts = self._sources.records.of_round(notice.record, notice.round)
        thread = self._with_files(self._thread(notice, parts))
        if self._sources.follower is not None:
            thread = self._sources.follower.of_round(thread, start_ns, stop_ns)
        before = self._readings.before(start_ns) or after
        seen = self._readings.last_seen(before, after)
        uname = os.uname()
        now = datetime.datetime.now(datetime.UTC)
        since_start_ns = int(lib.monotonic_ns()) - start_ns
        events = self._sources.events and self._sources.events.of_round(
            notice.tid, start_ns, stop_ns
        )
        profiled_ns = self._sources.profiles.began_ns(notice.tid, start_ns, stop_ns)
        timeline = self._timeline(notice, parts)
        # Notices of two CPUs may come in another order than their counts.
        newly_suppressed = max(0, notice.suppressed - self._suppressed_before)
        self._suppressed_before += newly_suppressed
        return Sample(
            schema="kernel-delay/3",
            target=Target(pid=self._target.pid, comm=self._target.comm, exe=self._target.exe),
            kernel=uname.release,
            host=uname.nodename,
            window=Window(
                start_ns=start_ns,
                stop_ns=stop_ns,
                duration_ns=stop_ns - start_ns,
                start_time=now - datetime.timedelta(microseconds=since_start_ns / 1000),
                collected_time=now,
                ended_by=self._ended_by(notice),
                start_trigger=self._hit(self._plan.start, notice),
                stop_trigger=self._hit(self._plan.stop, notice),
            ),
            threads=with_scheduling((thread,), stop_ns - start_ns),
            syscall_events=events.events if events else None,
            stacks=events.stacks if events else (),
            lost=self._sources.lost_between(before, after),
            timeline=None if timeline is None else timeline.slices,
            system_state=system_state_of_round(
                self._sources.programs, self._target.pid, thread, start_ns, stop_ns
            ),
            unseen=tuple(self._sources.programs.unseen),
            round=Round(
                tid=notice.tid,
                name=thread.name,
                number=sum(lengths_of(notice)),
                suppressed=newly_suppressed,
                others_start_ns=before.time_ns,
                others_stop_ns=after.time_ns,
                others=others_between(before, after, seen, notice.identity),
                profile=events.profile if events else (),
                profile_hz=None if profiled_ns is None else FREQUENCY,
                profile_start_ns=profiled_ns,
                slices_left_out=timeline.left_out if timeline else 0,
                soft_irqs_start_ns=self._soft_irqs_start_ns(notice),
            ),
        )

    def _with_files(self, thread: Thread) -> Thread:
        if not any(sleep.file for sleep in thread.sleeps):
            return thread
        # Imported here: most rounds are not long by waits on files.
        from kernel_delay.capture.sleep_files import with_files

        ((_, found),) = with_files([(self._target.pid, thread)], self._sources.unix_sockets)
        return found

    def _soft_irqs_start_ns(self, notice: "RoundNotice") -> int | None:
        # While a thread has no CPU no soft IRQ is on its time.
        if notice.kind == lib.ROUND_IS_OFF_CPU:
            return None
        return self._sources.soft_irqs.attached_from_ns(notice.start_ns, notice.stop_ns)

    def _ended_by(self, notice: "RoundNotice") -> EndedBy:
        if notice.kind == lib.ROUND_IS_OFF_CPU:
            return "switch"
        if notice.kind == lib.ROUND_IS_CUT_SHORT:
            return "exit"
        return "trigger" if self._plan.start else "poll"

    def _timeline(self, notice: "RoundNotice", parts: ThreadRecords) -> "TimelineOfRound | None":
        if self._sources.timelines is None or not self._sources.has_timelines:
            return None
        return self._sources.timelines.of_round(notice, parts)

    @staticmethod
    def _hit(trigger: TriggerPoints | None, notice: "RoundNotice") -> TriggerHit | None:
        if trigger is None:
            return None
        return TriggerHit(trigger.text, notice.tid, text_of(notice.comm))

    def _thread(self, notice: "RoundNotice", parts: ThreadRecords) -> Thread:
        window = notice.start_ns, notice.stop_ns
        name = name_of(parts.threads[0]) if parts.threads else _name(notice)
        account, _ = account_of(*window, parts, None)
        thread = accounted_stats(name, parts, account, self._sources.programs.sees_faults)
        names = self._readings.names()
        stacks = self._sources.sleep_stacks
        thread = with_cpu_takers(thread, parts, None, {}, window)
        thread = with_lock_waits(thread, parts, None, names.get, stacks, window)
        thread = with_sleeps(thread, parts, None, stacks, window)
        if notice.kind != lib.ROUND_IS_OFF_CPU:
            own_ns = thread.time.user_ns if thread.time else 0
            thread = replace(
                thread,
                unsplit_ns=max(0, min(notice.unsplit_ns, own_ns)),
                task_times=counted_since(notice.begun, notice.ended),
                migrations=notice.ended.migrations - notice.begun.migrations,
            )
        return replace(thread, tid=notice.tid)


def _name(notice: "RoundNotice") -> ThreadName:
    return ThreadName(notice.tid, text_of(notice.comm))


def system_state_of_round(
    programs: Programs, pid: int, thread: Thread, start_ns: int, stop_ns: int
) -> SystemState | None:
    """Return who stopped a thread of process `pid`: its tracer, or who sent the signal.

    None of a thread that was not stopped in its round [start_ns, stop_ns).
    """
    if thread.time is None or not thread.time.stopped_ns:
        return None
    return state_of_round(programs, pid, thread.tid, start_ns, stop_ns)
