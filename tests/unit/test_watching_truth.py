"""How `make test-watch` tells what a round was long of, and what it holds against that."""

import datetime
from typing import Literal

import pytest
from msgspec.structs import replace

from kernel_delay.model import Finding, LogLine, Round, Sample, Slice, TaskTimes
from tests.unit.samples import START_TIME, bare_sample, timed_thread, window
from tests.watching.causes import Cause, rule
from tests.watching.comparison import Provoked, compared, table
from tests.watching.truth import SchedStat, Share, truth_of

MS = 1_000_000
LINE = LogLine(time=START_TIME + datetime.timedelta(seconds=1.2), thread="", length_ms=1200)


def record(
    length_ms: float = 1200, log: LogLine | None = LINE, named: str = "lock", stolen_ms: int = 0
) -> Sample:
    finding = Finding(rule=named, who="program", share=0.9, tid=1, text=named)
    times = TaskTimes(0, 0, 0, 0, steal_ns=stolen_ms * MS)
    thread = replace(timed_thread(1, "ovs-vswitchd", ready=100), task_times=times)
    sample = bare_sample(thread, window=window("poll", int(length_ms * MS)))
    return replace(sample, round=Round(1, "ovs-vswitchd", number=7, log=log), verdict=(finding,))


def provoked(share: Share, named: str, ran_ms: int, waited_ms: int, hog_ms: int = 0) -> Provoked:
    own, hog = SchedStat(ran_ms * MS, waited_ms * MS), SchedStat(hog_ms * MS, 0)
    return Provoked(
        Cause("cause", share, lambda: None, lambda sample: rule(sample) == named),
        START_TIME,
        START_TIME + datetime.timedelta(seconds=1.3),
        lambda length_ns: truth_of(length_ns, own, hog),
    )


def test_shares_of_a_round_follow_the_kernels_counts() -> None:
    truth = truth_of(1000 * MS, SchedStat(100 * MS, 700 * MS), SchedStat(500 * MS, 0))
    assert truth.shares_ns == {
        "own": 100 * MS,
        "hog": 500 * MS,
        "others": 200 * MS,
        "off": 200 * MS,
    }
    assert truth.largest() == "hog"
    assert not truth.may_be("off")


Counted = Literal["long", "named", "otherwise", "otherwise_named"]


@pytest.mark.parametrize(
    ("cause", "record_names", "counted"),
    [
        (provoked("own", "user_work", 1000, 200), "user_work", ("long", "named")),
        (provoked("own", "user_work", 1000, 200), "cpu_contention", ("long",)),
        # Others had the CPU for most of it: the record has to say that, and not the command.
        (
            provoked("own", "user_work", 200, 1000),
            "cpu_contention",
            ("otherwise", "otherwise_named"),
        ),
        (provoked("own", "user_work", 200, 1000), "user_work", ("otherwise",)),
        (provoked("hog", "cpu_contention", 100, 1100, 1000), "cpu_contention", ("long", "named")),
        (provoked("off", "lock", 10, 20), "lock", ("long", "named")),
        (provoked("off", "lock", 10, 20), "cpu_contention", ("long",)),
        # As much of one as of the other: either is true.
        (provoked("own", "user_work", 590, 610), "cpu_contention", ("long", "named")),
        (provoked("own", "user_work", 590, 610), "user_work", ("long", "named")),
    ],
)
def test_record_must_name_the_largest_share(
    cause: Provoked, record_names: str, counted: tuple[Counted, ...]
) -> None:
    found = compared([cause], [LINE], [record(named=record_names)]).causes["cause"]
    names = ("long", "named", "otherwise", "otherwise_named")
    assert [name for name in names if getattr(found, name)] == list(counted)
    assert found.provoked == 1


def problems(*samples: Sample) -> list[str]:
    cause = provoked("off", "lock", 10, 20)
    return compared([cause], [LINE], list(samples)).problems


def test_each_line_has_one_record_of_its_length() -> None:
    assert problems(record()) == []
    longer = (
        "a record is +200.0 ms longer than its line of 1200 ms: 1400 ms: lock 90 %;"
        " kept from its CPU for 100.0 ms"
    )
    assert problems(record(1400))[0] == longer
    assert problems()[0] == "0 records of the line of 1200 ms"
    assert problems(record(), record())[0] == "2 records of the line of 1200 ms"
    without = problems(record(), record(1100, None))[0]
    assert without == "no line of a round of ovs-vswitchd of 1100.0 ms: lock"


@pytest.mark.parametrize(
    ("after_us", "stopped_ms", "unseen"), [(20, 1099, 1), (20, 50, 0), (80, 1099, 0)]
)
def test_thread_stopped_as_its_poll_returns_has_no_line(
    after_us: int, stopped_ms: int, unseen: int
) -> None:
    long = record(1100, None)
    start_ns = long.window.start_ns + after_us * 1000
    stopped = Slice(
        long.threads[0].tid, "stopped", start_ns, start_ns + stopped_ms * 1_000_000, "user"
    )
    cause = provoked("off", "lock", 10, 20)
    found = compared([cause], [LINE], [record(), replace(long, timeline=(stopped,))])
    assert (found.unseen, len(found.problems)) == (unseen, 1 - unseen)


def test_records_with_edge_waits_and_split_polls_are_counted() -> None:
    cause = provoked("off", "lock", 10, 20)
    found = compared([cause], [LINE], [record(1250)])
    assert (found.kept, found.split, found.problems) == (1, 0, [])
    assert compared([cause], [LINE], [record(1350)]).kept == 0
    assert compared([cause], [LINE], [record(1350, stolen_ms=200)]).kept == 1
    found = compared([cause], [LINE], [record(1160)])
    assert (found.kept, found.split, found.problems) == (0, 1, [])
    assert list(table(found))[-1].startswith("1 lines, 1 records: 0 are as long within 2 ms")


def test_cause_without_a_long_round_is_a_problem() -> None:
    cause = provoked("own", "user_work", 200, 1000)
    found = compared([cause], [LINE], [record(named="cpu_contention")])
    assert found.problems == ["no round was long of it: cause"]
