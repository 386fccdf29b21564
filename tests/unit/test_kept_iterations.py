"""Suspicious iterations of a log, and in which of them the PMD thread kept its CPU."""

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_delay.analysis.verdict import judge
from kernel_delay.capture.plan import RoundPlan
from kernel_delay.capture.rounds import iterations
from kernel_delay.capture.rounds.iterations import KeptIterations
from kernel_delay.capture.rounds.round_events import RoundEvents
from kernel_delay.capture.rounds.sample import Sources
from kernel_delay.capture.rounds.threads import Readings, ReportedThread, ThreadReading
from kernel_delay.host.target import ProcessTarget
from kernel_delay.loader._records import lib
from kernel_delay.model import Lost, ProfiledStack, RelatedLine, Sample, ThreadRounds
from kernel_delay.openvswitch.log import OvsLog

MS = 1_000_000
NAME = "pmd-c01/id:6"
TID = 31
LENGTH_MS = 100
NOW, NOW_NS = datetime.datetime.now(datetime.UTC), int(lib.monotonic_ns())


def reported(off_cpu: dict[int, int], system_ms: int = 0, open_ns: int | None = None) -> Any:
    """The PMD thread, which was off its CPU so often by powers of two; and one to write the log."""
    lengths = tuple(off_cpu.get(power, 0) for power in range(32))
    rounds = ThreadRounds(TID, NAME, lengths, 0, open_ns)
    writer = ThreadRounds(TID + 1, NAME, (0,) * 32, 0)
    return {
        5: ReportedThread(TID, rounds, 0, 0, system_ms * MS),
        9: ReportedThread(TID + 1, writer, 0, 0),
    }


@pytest.fixture(autouse=True)
def standing_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes from one line to the next."""
    monkeypatch.setattr(iterations, "lib", SimpleNamespace(monotonic_ns=lambda: NOW_NS))
    parts = {"UTC": datetime.UTC, "timedelta": datetime.timedelta}
    standing = SimpleNamespace(datetime=SimpleNamespace(now=lambda zone: NOW), **parts)
    monkeypatch.setattr(iterations, "datetime", standing)


def line_of(age_ms: int = 500, length_ms: int = LENGTH_MS) -> RelatedLine:
    time = NOW - datetime.timedelta(milliseconds=age_ms)
    us = 1000 * length_ms
    return RelatedLine(time, NAME, "iteration", length_ms, NAME, us, "Excessive total cycles")


def found(
    before: Any, after: Any, events: RoundEvents | None = None, gap_ms: int = 0, lines: int = 1
) -> list[Sample | None]:
    """What is made of lines, between readings of long before them and after them."""
    readings = Readings()
    readings.add(ThreadReading(NOW_NS - 60_000 * MS, before))
    readings.add(ThreadReading(NOW_NS, after))
    source: Any = SimpleNamespace(
        take=lambda until_ns: None,
        of_round=lambda *window: events,
        newly_lost=lambda: Lost(events=3),
    )
    none: Any = None
    programs: Any = SimpleNamespace(unseen=())
    sources = Sources(
        programs, none, none, none, none, none, none, events=source if events else None
    )
    plan = RoundPlan(1000 * MS, gap_ms * MS, off_cpu_round_ns=MS, off_cpu_name=b"pmd-c")
    target = ProcessTarget(27090, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd")
    kept = KeptIterations(target, plan, sources, readings)
    return [kept.sample(line_of()) for _ in range(lines)]


def own_ms(sample: Sample | None) -> float | None:
    if sample is None or sample.threads[0].time is None:
        return None
    return sample.threads[0].time.user_ns / MS


def test_thread_that_was_never_off_its_cpu_ran_its_own_code() -> None:
    (sample,) = found(reported({12: 7}), reported({12: 7}))
    assert own_ms(sample) == LENGTH_MS
    assert sample is not None
    assert (sample.window.ended_by, sample.threads[0].tid) == ("iteration", TID)
    (finding,) = judge(sample).verdict
    assert (finding.rule, finding.remark) == ("pmd_iteration", False)
    assert "Excessive total cycles" in finding.text


def test_time_off_the_cpu_is_taken_for_the_longest_it_can_be() -> None:
    # Two of less than 2^25 ns.
    (sample,) = found(reported({}), reported({24: 1}))
    assert own_ms(sample) == pytest.approx(LENGTH_MS - (1 << 25) / MS)
    assert found(reported({}), reported({24: 2})) == [None]


def test_time_off_the_cpu_that_goes_on_counts() -> None:
    since_ns = NOW_NS - 90 * MS
    assert found(reported({}), reported({}, open_ns=since_ns)) == [None]


def test_time_in_the_kernel_is_not_its_own() -> None:
    (sample,) = found(reported({}, 10), reported({}, 40))
    assert own_ms(sample) == LENGTH_MS - 30
    assert found(reported({}, 10), reported({}, 90)) == [None]


@pytest.mark.parametrize(("samples", "kept"), [(9, 90.0), (3, None)])
def test_samples_say_where_it_was_if_they_are_enough(samples: int, kept: float | None) -> None:
    """The kernel's count is of all the time between the readings."""
    profile = (ProfiledStack(samples, 0), ProfiledStack(1, 0, 0))
    events = RoundEvents((), profile, ((),))
    (sample,) = found(reported({}, 0), reported({}, 90), events)
    assert own_ms(sample) == kept
    assert sample is None or sample.lost.events == 3


def test_no_reading_from_before_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterations, "LINE_NS", 120_000 * MS)
    assert found(reported({}), reported({})) == [None]


def test_storm_has_one_record_in_a_gap() -> None:
    first, second = found(reported({}), reported({}), gap_ms=5000, lines=2)
    assert first is not None
    assert second is None


def test_what_has_no_record_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "ovs-vswitchd.log"
    path.touch()
    log = OvsLog(path)
    for age_ms in (5_000_000, 4_000_000, 0):
        line = line_of(age_ms)
        with path.open("a") as file:
            file.write(
                f"{line.time:%Y-%m-%dT%H:%M:%S}.{line.time.microsecond // 1000:03}Z|00007|pmd_perf"
                f"({NAME})|WARN|Suspicious iteration ({line.reason}): iter=8 duration=100000 us\n"
            )
    (sample,) = found(reported({}), reported({}))
    answers = iter((sample, None))
    # The newest may yet get a record of the time off the CPU.
    assert list(log.kept_iterations(lambda line: next(answers), 1000.0)) == [sample]
    assert log.left_iterations()[NAME].count == 2
    log.close()
