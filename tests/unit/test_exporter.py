"""What takes the state of a watch, and hands out snapshots of it, in another thread."""

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernel_delay.analysis.verdict.user_work import USER_WORK
from kernel_delay.metrics import PmdFigures, Snapshot
from kernel_delay.metrics import exporter as exporter_module
from kernel_delay.metrics.exporter import NOT_RECORDED, Exporter
from kernel_delay.model import CallTotals, Finding, Losses, PmdStats, ThreadTotals, Upcalls
from tests.unit.metric_samples import LOSSES, thread
from tests.unit.samples import bare_sample, timed_thread
from tests.workload import HANGS_S

PID = 1000


class FakeWatch:
    """A watch that has what a test says."""

    def __init__(self) -> None:
        self.threads: dict[int, ThreadTotals | None] = {}
        self.gone: list[ThreadTotals] = []
        self.lost = Losses()
        self.suppressed_rounds = self.yet_to_be_reported = 0
        self.sent: Upcalls | None = None
        self.reads = 0
        self.ended = "exit"

    @property
    def thread_totals(self) -> "FakeTotals":
        return FakeTotals(self)

    def losses(self) -> Losses:
        return self.lost

    def suppressed(self) -> int:
        return self.suppressed_rounds

    def unrecorded(self) -> int:
        return self.suppressed_rounds + self.yet_to_be_reported

    def upcalls(self) -> Upcalls | None:
        return self.sent


class FakeTotals:
    """What reads the threads of that watch."""

    def __init__(self, watch: FakeWatch) -> None:
        self._watch = watch

    def living(self) -> dict[int, ThreadTotals | None]:
        self._watch.reads += 1
        return self._watch.threads

    def ended(self) -> Iterator[ThreadTotals]:
        gone, self._watch.gone = self._watch.gone, []
        yield from gone

    def calls(self) -> list[CallTotals]:
        return [CallTotals("poll", 2, 200)]


@pytest.fixture
def watch() -> FakeWatch:
    return FakeWatch()


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Exporter:
    monkeypatch.setattr(exporter_module, "READING_SHARE", math.inf)
    # A watch without a CPU answers late; the snapshot waits for its answer.
    monkeypatch.setattr(exporter_module, "LONGEST_WAIT_S", HANGS_S)
    found = Exporter("prog", is_open_vswitch=False)
    found.begin(PID)
    return found


def asked(exporter: Exporter, watch: FakeWatch) -> Snapshot:
    """A snapshot that another thread asked for while the watch went on."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(exporter.snapshot)
        while not future.done():
            exporter.tick(watch)
        return future.result()


def test_threads_are_read_when_a_snapshot_is_asked_for(
    exporter: Exporter, watch: FakeWatch
) -> None:
    watch.threads = {1: thread(1, "prog", tid=PID, user_ns=5), 2: thread(2, "work1", user_ns=7)}
    for _ in range(3):
        exporter.tick(watch)
    assert watch.reads == 1

    found = asked(exporter, watch)

    assert watch.reads == 2
    assert found.is_watching
    assert found.comm == "prog"
    assert found.classes["main"].state_ns["user"] == 5
    assert found.classes["work"].state_ns["user"] == 7
    assert found.calls["poll"].count == 2
    assert found.upcalls is None
    assert found.own.cpu_ns > 0


def test_totals_of_ended_threads_are_collected_at_each_tick(
    exporter: Exporter, watch: FakeWatch
) -> None:
    """Their buffer is bounded, and a snapshot may not be asked for in an hour."""
    watch.gone = [thread(2, "work1", user_ns=7)]
    exporter.tick(watch)
    assert not watch.gone
    assert asked(exporter, watch).classes["work"].state_ns["user"] == 7


def test_who_asks_while_nothing_is_watched_gets_what_was(
    exporter: Exporter, watch: FakeWatch
) -> None:
    watch.threads = {1: thread(1, "prog", tid=PID, user_ns=5)}
    watch.sent = Upcalls(3, 1)
    watch.gone = [thread(1, "prog", tid=PID, user_ns=6)]
    exporter.finish(watch)

    found = exporter.snapshot()

    assert not found.is_watching
    assert found.classes["main"].state_ns["user"] == 6
    assert found.classes["main"].threads == 0
    assert found.losses.missed_ends == 0
    watch.threads, watch.sent = {1: thread(1, "prog", tid=PID, user_ns=2)}, Upcalls(2, 0)
    exporter.begin(PID)
    found = asked(exporter, watch)
    assert found.classes["main"].state_ns["user"] == 8
    assert found.upcalls == Upcalls(5, 1)


def test_lost_packets_add_up_over_processes(exporter: Exporter, watch: FakeWatch) -> None:
    assert asked(exporter, watch).lost_packets is None
    for _ in range(2):
        exporter.begin(PID, lambda: LOSSES)
        exporter.finish(watch)
    found = exporter.snapshot().lost_packets
    assert found is not None
    assert list(found.counts.values()) == [10, 12, 18, 20, 14, 16, 26]
    assert found.limit_hits == 24
    assert found.newest == LOSSES


def test_pmd_threads_add_up_by_their_cores(
    exporter: Exporter, watch: FakeWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter_module, "MOST_PMDS", 2)
    stats = PmdStats(
        10**9, iterations=400, busy_iterations=30, packets=20, upcalls=2, lost_upcalls=1
    )
    for _ in range(2):
        exporter.begin(PID, lambda: LOSSES, lambda: {1: stats, 17: stats, 18: stats, 19: stats})
        exporter.finish(watch)
    each = PmdFigures(800, 60, 40, 4, 2)
    assert exporter.snapshot().pmds == {
        "1": each,
        "17": each,
        "other": PmdFigures(1600, 120, 80, 8, 4),
    }


def test_stalled_watch_delays_no_snapshot(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter_module, "LONGEST_WAIT_S", 0.01)
    assert not exporter.snapshot().classes


def test_reading_takes_a_share_of_the_time_at_most(
    exporter: Exporter, watch: FakeWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(exporter, watch)
    # As if that had taken an hour.
    monkeypatch.setattr(exporter_module, "READING_SHARE", 1e-12)
    first = asked(exporter, watch)
    assert watch.reads == 2
    assert exporter.snapshot() is first
    exporter.tick(watch)
    assert watch.reads == 2
    exporter.finish(watch)
    assert not exporter.snapshot().is_watching


def test_all_who_ask_at_once_get_an_answer(exporter: Exporter, watch: FakeWatch) -> None:
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            exporter.tick(watch)

    ticking = threading.Thread(target=go_on)
    ticking.start()
    ask: Callable[[int], Snapshot] = lambda _: exporter.snapshot()  # noqa: E731
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(12)))
    stop.set()
    ticking.join()
    assert all(each.calls for each in found)


def test_long_rounds_are_counted_by_what_the_verdict_says(
    exporter: Exporter, watch: FakeWatch
) -> None:
    finding = Finding("lock", "program", 0.9, PID, "it waited for a lock")
    slept = timed_thread(PID, "prog", user_ns=2, blocked_ns=3)
    exporter.add(bare_sample(slept, verdict=(finding,)))
    exporter.add(bare_sample(slept))

    causes = asked(exporter, watch).causes
    assert causes["lock"] == causes["blocked"] == 1
    assert sum(causes.values()) == 2


def test_pending_long_round_is_not_counted_as_unrecorded(
    exporter: Exporter, watch: FakeWatch
) -> None:
    """Those that are without one are in the first scrape after them."""
    watch.yet_to_be_reported = 1
    assert asked(exporter, watch).causes[NOT_RECORDED] == 0
    watch.suppressed_rounds = 2
    assert asked(exporter, watch).causes[NOT_RECORDED] == 2
    exporter.finish(watch)
    assert exporter.snapshot().causes[NOT_RECORDED] == 3


def test_round_made_long_by_its_program_has_a_cause(exporter: Exporter, watch: FakeWatch) -> None:
    """Of a round that is a finding as any other. A rule that is not listed ends no watch."""
    slept = timed_thread(PID, "prog", user_ns=2, blocked_ns=3)
    for rule in (USER_WORK.name, "not_listed"):
        exporter.add(bare_sample(slept, verdict=(Finding(rule, "program", 0.9, PID, "busy"),)))

    causes = asked(exporter, watch).causes
    assert causes["user_work"] == causes["unknown"] == 1


def test_a_program_may_call_itself_what_it_likes() -> None:
    assert Exporter("a\x1b\x07", is_open_vswitch=False).snapshot().comm == r"a\x1b\x07"
