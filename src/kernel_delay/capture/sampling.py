"""From programs that are attached to a Sample of each window."""

import datetime
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

from msgspec import structs

from kernel_delay.capture.boundaries import Boundaries, Readings
from kernel_delay.capture.plan import EXEC, EventPlan, TriggerPoints
from kernel_delay.capture.processes import Processes
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.schedule import Over, TriggeredWindows, timed_windows
from kernel_delay.capture.session_options import Request, count_upcalls
from kernel_delay.capture.threads.collector import Collector, ThreadOf
from kernel_delay.capture.threads.task_times import (
    Scheduled,
    scheduled,
    with_scheduling,
)
from kernel_delay.capture.windows import Windows
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.waiting import Waiter
from kernel_delay.model import (
    Coverage,
    EndedBy,
    Lost,
    PacketLosses,
    Sample,
    SkippedWindow,
    Slice,
    Target,
    Thread,
    TriggerHit,
    Window,
)

if TYPE_CHECKING:
    from kernel_delay.capture.chains import Follower
    from kernel_delay.capture.syscall_events.event_store import EventsOfWindow, EventStore
    from kernel_delay.capture.timeline.store import TimelineOfWindow, TimelineStore
    from kernel_delay.loader._records import TriggerHit as RecordOfHit
    from kernel_delay.openvswitch.coverage import CoverageReader
    from kernel_delay.openvswitch.losses import LossCounters, LossReading


# So often it is looked whom threads wait for.
FOLLOW_EACH_MS = 50


class Sampling:
    """Opens the windows of a session's plan, and makes Samples of what was measured in them."""

    def __init__(
        self,
        request: Request,
        programs: Programs,
        waiter: Waiter,
        closing: ExitStack,
    ) -> None:
        """Prepare for the first window; `closing` closes what is opened for that."""
        self._targets = request.targets
        self._target = self._targets.processes[0]
        self._processes = Processes(self._targets)
        self._plan = request.plan
        self._options = options = request.options
        self._programs = programs
        self._waiter = waiter
        self._closing = closing
        self._notify = request.notify
        self._progress = request.progress
        self._unix_sockets = UnixSockets(self._targets.pids)
        self._closing.callback(self._unix_sockets.close)
        self._follower = self._follow() if options.chains else None
        self._snapshots = Boundaries(self._processes.snapshots)
        self._states = Boundaries(self._read_states)
        self._losses = self._count_losses()
        self._coverage = self._ask_coverage() if options.coverage else None
        self._windows = Windows(programs.control, self._forget, self._opened)
        self._collector = self._collect()
        waiter.act_at_notices(programs.notices, self._make_room)
        self._events = self._store_events(options.events) if options.events else None
        self._timeline = self._store_timeline(options.timeline)
        self._upcalls = count_upcalls(
            options.open_upcall_counters, self._target.pid, programs, closing, self._notify
        )

    def _follow(self) -> "Follower":
        from kernel_delay.capture.chains import Follower

        programs, pids = self._programs.chains(), self._targets.pids
        self._closing.callback(programs.close)
        follower = Follower(programs, pids, self._unix_sockets, self._notify)
        if self._targets.are_several:
            self._processes.note(self._programs.thread_states())
            follower.follow_children(self._processes.there)
            follower.look()
        self._waiter.act_each(FOLLOW_EACH_MS, follower.look)
        return follower

    def _count_losses(self) -> "tuple[LossCounters, Boundaries[LossReading]] | None":
        if not self._options.packet_losses or self._targets.are_several:
            return None
        from kernel_delay.openvswitch.losses import LossCounters

        counters = LossCounters(self._target.pid, self._target.comm, pmds=True)
        self._closing.callback(counters.close)
        return counters, Boundaries(counters.read)

    def _ask_coverage(self) -> "CoverageReader | None":
        """Connect to the process; None where it is asked for its losses, with the same counters."""
        if self._losses is not None and self._losses[0].asks_coverage:
            return None
        from kernel_delay.openvswitch.coverage import CoverageReader

        reader = CoverageReader(self._target.pid)
        self._closing.callback(reader.close)
        return reader

    def _read_states(self) -> bytes:
        states = self._programs.thread_states()
        self._processes.note(states)
        if self._follower is not None:
            self._follower.follow_children(self._processes.there)
        return states

    def _collect(self) -> Collector:
        has_timeline = self._options.timeline is not None
        if not self._options.waker_stacks:
            return Collector(self._programs, keeps_accounts=has_timeline)
        # Symbols and their libraries are for these stacks and for events alone.
        from kernel_delay.capture.waker_stacks import WakerStacks

        stacks = WakerStacks(self._programs.waker_stacks())
        self._closing.callback(stacks.close)
        return Collector(self._programs, stacks.name, keeps_accounts=has_timeline)

    def _store_events(self, plan: EventPlan) -> "EventStore":
        # As for the stacks of wakers.
        from kernel_delay.capture.syscall_events.event_store import EventStore

        store = EventStore(self._programs, self._target.pid, plan, self._progress, self._notify)
        self._closing.callback(store.close)
        if reason := store.nameless():
            self._notify(reason)
        return store

    def _store_timeline(self, max_slices: int | None) -> "TimelineStore | None":
        if max_slices is None:
            return None
        from kernel_delay.capture.timeline.store import TimelineStore

        store = TimelineStore(self._programs, max_slices)
        self._closing.callback(store.close)
        return store

    def windows(self) -> Iterator[Sample | SkippedWindow]:
        """Measure as Session.windows() does."""
        for epoch, ended in self._schedule():
            # With a start trigger others open meanwhile: a signal is to end the last of them.
            with self._waiter.reporting() if self._plan.start is None else nullcontext():
                if self._is_skipped(epoch, ended):
                    yield self._skip(epoch)
                else:
                    yield from self._samples(epoch, ended)
                self._windows.free(epoch)

    def _is_skipped(self, epoch: int, ended: EndedBy) -> bool:
        start_ns, stop_ns = self._windows.boundaries(epoch)
        return ended == "trigger" and stop_ns - start_ns < self._plan.shortest_ns

    def _opened(self, epoch: int) -> None:
        if self._losses:
            self._losses[1].open(epoch, self._plan.sample_time_ns)
        if self._options.accounting:
            self._states.open(epoch, self._plan.sample_time_ns)
            self._snapshots.open(epoch, self._plan.sample_time_ns)
        self._options.on_open(epoch)

    def _make_room(self) -> None:
        epoch = self._windows.newest
        self._collector.make_room(epoch, *self._windows.boundaries(epoch))

    def _forget(self) -> None:
        """Forget all that was measured and not taken yet; no window is open."""
        self._collector.discard(self._windows.newest, lib.monotonic_ns())
        if self._events:
            self._events.forget()
        if self._timeline:
            self._timeline.forget()

    def _schedule(self) -> Iterable[Over]:
        if self._plan.start is EXEC:
            self._opened(self._windows.newest + 1)
        report_left = self._options.report_left
        if self._plan.start is None and self._plan.stop is None:
            return timed_windows(self._plan, self._windows, self._waiter, report_left)
        notices = self._programs.notices
        return TriggeredWindows(
            self._plan, self._windows, self._waiter, notices, self._notify, report_left
        )

    def _skip(self, epoch: int) -> SkippedWindow:
        """Forget the epoch's window. The next Sample has what was lost by now.

        The next window may be open already, and it be lost of that.
        """
        start_ns, stop_ns = self._windows.boundaries(epoch)
        self._states.close(epoch, start_ns, stop_ns)
        self._snapshots.close(epoch, start_ns, stop_ns)
        if self._losses:
            self._losses[1].close(epoch, start_ns, stop_ns)
        self._collector.discard(epoch, stop_ns)
        if self._events:
            self._events.discard(stop_ns)
        if self._timeline:
            self._timeline.discard(stop_ns)
        if self._upcalls:
            self._upcalls.take(epoch)
        return SkippedWindow(self._window(epoch, "trigger"))

    def _samples(self, epoch: int, ended: EndedBy) -> Iterator[Sample]:
        start_ns, stop_ns = self._windows.boundaries(epoch)
        counters = self._losses[1].close(epoch, start_ns, stop_ns) if self._losses else None
        states = self._states.close(epoch, start_ns, stop_ns)
        counts = scheduled(states.before, states.after) if states else Scheduled({}, {}, set())
        snapshots = self._snapshots.close(epoch, start_ns, stop_ns)
        dumped = states.after if states else None
        threads = self._with_files(self._collector.collect_each(epoch, start_ns, stop_ns, dumped))
        if self._follower is not None:
            threads = list(self._follower.chains(threads, start_ns, stop_ns))
        if states and not states.is_late:
            threads = [
                (
                    process,
                    structs.replace(
                        thread,
                        task_times=counts.times.get(thread.tid),
                        migrations=counts.migrations.get(thread.tid),
                    ),
                )
                for process, thread in threads
            ]
        taken = self._events.take(stop_ns) if self._events else None
        timeline = (
            self._timeline.take(start_ns, stop_ns, self._collector.take_accounts())
            if self._timeline
            else None
        )
        upcalls = self._upcalls.take(epoch) if self._upcalls else None
        uname = os.uname()
        of_all = Sample(
            schema="kernel-delay/3",
            target=Target(0, "", None),
            kernel=uname.release,
            host=uname.nodename,
            window=self._window(epoch, ended),
            threads=(),
            syscall_events=taken.events if taken else None,
            stacks=taken.stacks if taken else (),
            upcalls=upcalls,
            lost=self._lost(taken, timeline),
            unseen=tuple(self._programs.unseen),
            packet_losses=self._packet_losses(counters) if ended != "exit" else None,
            coverage=self._coverage_counters() if ended != "exit" else None,
        )
        processes = self._processes.sorted_out(threads)
        slices = self._slices_of(timeline, processes)
        system = None
        if states and snapshots:
            # Not before the window opens, which would wait for it.
            from kernel_delay.capture.system_states import SystemStates

            several = self._targets.are_several
            window = start_ns, stop_ns
            system = SystemStates(
                self._programs, window, snapshots, states.after, are_several=several
            )
        for pid, own in processes.items():
            yield structs.replace(
                of_all,
                target=self._processes.target(pid, own),
                threads=self._with_pmds(
                    with_scheduling(own, stop_ns - start_ns, counts.changed), ended
                ),
                system_state=system.of(pid, own, is_one=len(processes) == 1) if system else None,
                timeline=slices[pid],
                processes=len(processes),
            )

    def _with_files(self, threads: list[ThreadOf]) -> list[ThreadOf]:
        """Say what the files are that threads slept on; /proc is only read if there are any."""
        if not any(sleep.file for _, thread in threads for sleep in thread.sleeps):
            return threads
        from kernel_delay.capture.sleep_files import with_files

        seen = self._follower.files if self._follower is not None else {}
        return with_files(threads, self._unix_sockets, seen)

    def _slices_of(
        self, timeline: "TimelineOfWindow | None", pids: Iterable[int]
    ) -> Mapping[int, Sequence[Slice] | None]:
        """Return the slices of each process; None for each where no timeline is kept."""
        own: Mapping[int, Sequence[Slice]] = {}
        others: Sequence[Slice] | None = timeline.slices if timeline else None
        if timeline is not None and self._targets.are_several:
            own, others = timeline.slices.by_process(), ()
        return {pid: own.get(pid, others) for pid in pids}

    def _packet_losses(self, readings: "Readings[LossReading] | None") -> PacketLosses | None:
        if self._losses is None or readings is None:
            return None
        return self._losses[0].between(readings.before, readings.after)

    def _coverage_counters(self) -> Coverage | None:
        """Return them; behind the losses, whose answers may have them."""
        if not self._options.coverage:
            return None
        if self._coverage is not None:
            return self._coverage.read()
        if self._losses is None or self._losses[0].answered is None:
            return None
        from kernel_delay.openvswitch.coverage import coverage_between

        return coverage_between(*self._losses[0].answered)

    def _with_pmds(self, threads: tuple[Thread, ...], ended: EndedBy) -> tuple[Thread, ...]:
        if self._losses is None or ended == "exit":
            return threads
        return self._losses[0].with_pmds(threads)

    def _lost(self, events: "EventsOfWindow | None", timeline: "TimelineOfWindow | None") -> Lost:
        lost = self._collector.lost()
        if self._upcalls:
            lost += self._upcalls.lost()
        if timeline:
            lost += timeline.lost
        return lost + events.lost if events else lost

    def _window(self, epoch: int, ended: EndedBy) -> Window:
        """Say how the window went; after collecting, when its hits are surely noted."""
        start_ns, stop_ns = self._windows.boundaries(epoch)
        start_hit, stop_hit = self._windows.hits(epoch)
        now = datetime.datetime.now(datetime.UTC)
        since_start_ns = int(lib.monotonic_ns()) - start_ns
        return Window(
            start_ns=start_ns,
            stop_ns=stop_ns,
            duration_ns=stop_ns - start_ns,
            start_time=now - datetime.timedelta(microseconds=since_start_ns / 1000),
            collected_time=now,
            ended_by=ended,
            start_trigger=_hit(self._plan.start, start_hit),
            stop_trigger=_hit(self._plan.stop, stop_hit) if ended == "trigger" else None,
        )


def _hit(trigger: TriggerPoints | None, hit: "RecordOfHit") -> TriggerHit | None:
    if trigger is None:
        return None
    comm = ffi.string(hit.comm).decode(errors="backslashreplace")
    return TriggerHit(trigger=trigger.text, tid=hit.tid, comm=comm)
