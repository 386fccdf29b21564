"""What is handed the watch's state, and has a snapshot of it for whoever asks."""

import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from kernel_delay.analysis.rounds import CAUSES, UNKNOWN_CAUSE, cause_name
from kernel_delay.capture.rounds.budget import resident_bytes
from kernel_delay.formatting import NS_PER_S, printable
from kernel_delay.metrics import LostPackets, OwnCost, PmdFigures, Snapshot
from kernel_delay.metrics.ledger import OTHER, Ledger, ThreadClasses
from kernel_delay.model import (
    CallTotals,
    Losses,
    PacketLosses,
    PmdStats,
    Sample,
    ThreadTotals,
    Upcalls,
)

NOT_RECORDED = "not_recorded"
"""The cause of long rounds of which there is no record: they came soon after a longer one."""

LONGEST_WAIT_S = 3.0
"""A scrape has older figures if there are none within that; Prometheus waits for 10 s."""

READING_SHARE = 0.02
BURST_S = 10.0
"""Reading takes that share of a CPU at most, over so long: who asks for more gets the figures that
there are."""

LAST_THREADS_S = 0.2
"""How long threads are waited for to report their ends when their process has exited."""

MOST_PMDS = 64
"""PMD threads that have series of their own; those of others are summed up."""


class Totals(Protocol):
    """Where all time of a process's threads went: what a watch reads in the kernel."""

    def living(self) -> Mapping[int, ThreadTotals | None]:
        """Return those of each thread that is there, by its identity; None if it was not read."""

    def ended(self) -> Iterator[ThreadTotals]:
        """Return those of each thread that has ended since it was asked last."""

    def calls(self) -> list[CallTotals]:
        """Return all calls that have ended, by name."""


class Watching(Protocol):
    """A watch of one process."""

    @property
    def ended(self) -> str:
        """What ended it: "exit", if the process did."""

    @property
    def thread_totals(self) -> Totals:
        """What reads where the time went."""

    def losses(self) -> Losses:
        """Return what is not known."""

    def suppressed(self) -> int:
        """Return how many long rounds came too soon after a longer one."""

    def unrecorded(self) -> int:
        """Return the same, with those still to be reported: at the end nothing reports them."""

    def upcalls(self) -> Upcalls | None:
        """Return what the kernel's datapath sent to user space; None if that is not known."""


class Exporter:
    """The figures of a watch, from one process to the next.

    Its own thread hands over the state; others ask for a snapshot. Threads are read when one is
    asked for, so that what nobody looks at costs nothing.
    """

    def __init__(self, comm: str, *, is_open_vswitch: bool) -> None:
        """Have figures of a program of that name."""
        self._comm = printable(comm)
        self._ledger = Ledger(ThreadClasses(is_open_vswitch=is_open_vswitch))
        self._causes = dict.fromkeys((NOT_RECORDED, *CAUSES), 0)
        self._suppressed = 0
        self._changed = threading.Condition()
        self._is_asked = False
        self._is_watching = False
        self._pid = 0
        self._upcalls = _GrowingUpcalls()
        self._take_losses: Callable[[], PacketLosses] | None = None
        self._lost_packets: LostPackets | None = None
        self._take_pmds: Callable[[], Mapping[int, PmdStats]] | None = None
        self._pmds: dict[str, PmdFigures] = {}
        self._others: list[Callable[[Sample], None]] = []
        self._snapshot = self._take()
        # What was read is paid for by then.
        self._paid_s = 0.0

    def begin(
        self,
        pid: int,
        take_losses: Callable[[], PacketLosses] | None = None,
        take_pmds: Callable[[], Mapping[int, PmdStats]] | None = None,
    ) -> None:
        """Have figures of this process from now on.

        `take_losses` returns what packets were lost since it was called last, and `take_pmds` what
        the PMD thread of each core did in that time.
        """
        self._pid = pid
        self._take_losses = take_losses
        self._take_pmds = take_pmds
        self._suppressed = 0
        with self._changed:
            self._is_watching = True
            # Classes are of those that there are, before threads come and go.
            self._is_asked = True

    def tick(self, watch: Watching) -> None:
        """Take what must not wait, and all if it was asked for: a few times in a second."""
        self._ledger.add_ended(self._pid, watch.thread_totals.ended())
        with self._changed:
            is_asked = self._is_asked
        if is_asked:
            cpu_s = -time.thread_time()
            self._read(watch)
            self._publish()
            cpu_s += time.thread_time()
            with self._changed:
                paid_s = max(self._paid_s, time.monotonic() - BURST_S)
                self._paid_s = paid_s + cpu_s / READING_SHARE

    def add(self, sample: Sample) -> None:
        """Count a long round, which is judged."""
        cause = cause_name(sample)
        self._causes[cause if cause in self._causes else UNKNOWN_CAUSE] += 1
        self._ledger.add_round(self._pid, sample)
        for notify in self._others:
            notify(sample)

    def also_report(self, notify: Callable[[Sample], None]) -> None:
        """Hand each long round on."""
        self._others.append(notify)

    def finish(self, watch: Watching) -> None:
        """Take what is left of a process: it is watched no more."""
        until = time.monotonic() + LAST_THREADS_S
        has_exited = watch.ended == "exit"
        self._read(watch)
        while has_exited and self._ledger.unfinished and time.monotonic() < until:
            time.sleep(LAST_THREADS_S / 20)
            self._ledger.add_ended(self._pid, watch.thread_totals.ended())
        self._count_suppressed(watch.unrecorded())
        self._ledger.end_process(has_exited=has_exited)
        self._upcalls.end_process()
        with self._changed:
            self._is_watching = False
        self._publish()

    def _read(self, watch: Watching) -> None:
        totals = watch.thread_totals
        # What a thread counts first is read last: there are no more long rounds than rounds.
        suppressed = watch.suppressed()
        # First those that are there: one that ends meanwhile has reported more by then.
        living = totals.living()
        self._ledger.add_living(self._pid, living)
        self._ledger.add_ended(self._pid, totals.ended())
        self._ledger.forget_all_but(living)
        self._ledger.add_calls(totals.calls())
        self._ledger.set_losses(watch.losses())
        self._upcalls.set(watch.upcalls())
        if self._take_losses is not None:
            self._lost_packets = (
                self._lost_packets or LostPackets({}, 0, PacketLosses())
            ) + self._take_losses()
        if self._take_pmds is not None:
            for core, stats in self._take_pmds().items():
                self._add_pmd(str(core), stats)
        self._count_suppressed(suppressed)

    def _add_pmd(self, core: str, stats: PmdStats) -> None:
        known = core if core in self._pmds or len(self._pmds) < MOST_PMDS else OTHER
        self._pmds[known] = self._pmds.get(known, PmdFigures()) + stats

    def _count_suppressed(self, suppressed: int) -> None:
        """Count long rounds without a record: so many of this process by now."""
        if suppressed > self._suppressed:
            self._causes[NOT_RECORDED] += suppressed - self._suppressed
            self._suppressed = suppressed

    def _publish(self) -> None:
        snapshot = self._take()
        with self._changed:
            self._snapshot = snapshot
            self._is_asked = False
            self._changed.notify_all()

    def _take(self) -> Snapshot:
        return Snapshot(
            comm=self._comm,
            read_time=time.time(),
            is_watching=self._is_watching,
            classes=self._ledger.classes,
            calls=self._ledger.calls,
            causes=dict(self._causes),
            waits_ns=self._ledger.waits_ns,
            roots_ns=self._ledger.roots_ns,
            losses=self._ledger.losses,
            own=own_cost(),
            upcalls=self._upcalls.sum,
            lost_packets=self._lost_packets,
            pmds=dict(self._pmds),
        )

    def snapshot(self) -> Snapshot:
        """Return a new one, or the last if none comes, or many were asked for, in any thread."""
        with self._changed:
            if self._is_watching and time.monotonic() >= self._paid_s:
                self._is_asked = True
                self._changed.wait_for(lambda: not self._is_asked, LONGEST_WAIT_S)
            return self._snapshot


class _GrowingUpcalls:
    """Upcalls, summed up over the processes that were watched."""

    def __init__(self) -> None:
        self._before: Upcalls | None = None
        self.sum: Upcalls | None = None

    def set(self, now: Upcalls | None) -> None:
        if now is not None:
            before = self._before or Upcalls()
            self.sum = Upcalls(before.sent + now.sent, before.failed + now.failed)

    def end_process(self) -> None:
        self._before = self.sum


def own_cost() -> OwnCost:
    """Return what this process took."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return OwnCost(
        cpu_ns=int((used.ru_utime + used.ru_stime) * NS_PER_S),
        resident_bytes=resident_bytes(),
    )
