"""The figures of long rounds, by hand: their values, weights and counts."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.figures import LEAST_COUNT, Figure
from kernel_delay.analysis.round_figures import LENGTH, RoundBlock, RoundFigures
from kernel_delay.model import (
    CpuTaker,
    Finding,
    LockWait,
    PageFaults,
    Round,
    Sample,
    Sleep,
    SyscallStats,
    ThreadTime,
)
from tests.unit.samples import bare_sample, bare_thread, window


def round_of(ns: int, name: str = "handler4", calls: int = LEAST_COUNT) -> Sample:
    """A round of that length that had `ns` of each figure, and more of the next one."""
    fields = dict.fromkeys(ThreadTime.__struct_fields__, 0)
    time = ThreadTime(**fields | {"user_ns": 40 * ns, "kernel_ns": 60 * ns})
    thread = replace(
        bare_thread(31, name),
        time=time,
        syscalls=(
            SyscallStats(
                1,
                "write",
                calls,
                2 * ns,
                ns,
                on_cpu_ns=3 * ns,
                ready_ns=4 * ns,
                blocked_ns=5 * ns,
                stopped_ns=6 * ns,
                guest_ns=20 * ns,
                unaccounted_ns=30 * ns,
            ),
            SyscallStats(999, None, 1, 7 * ns, ns),
        ),
        page_faults=PageFaults(calls, 8 * ns, 9 * ns),
        sleeps=(Sleep("pipe", "write", (), False, 1, 10 * ns, ns),),
        cpu_taken_by=(CpuTaker(7, "stress7", 1, 11 * ns), CpuTaker(8, "stress8", 1, 12 * ns)),
        cpu_taken_by_others_ns=13 * ns,
        cpu_taken_by_unknown_ns=14 * ns,
        lock_waits=(LockWait(16, 9, "urcu9", 1, 15 * ns),),
        lock_waits_others_ns=16 * ns,
    )
    sample = bare_sample(thread, window=window("poll", 100 * ns))
    return replace(sample, round=Round(31, name, 1))


@pytest.fixture
def figures() -> RoundFigures:
    found = RoundFigures()
    for ns in (1000, 3000):
        found.add(round_of(ns))
    found.add(round_of(5000, "main", calls=1))
    return found


# The mean of two rounds is 2000 of each, of a round of 200,000 ns.
PARTS = {
    "user": 40,
    "kernel": 60,
    # What its parts are, and not those calls alone that ended within.
    "write": 3 + 4 + 5 + 6 + 20 + 30,
    "syscall 999": 7,
    "faults": 8 + 9,
    "blocked/pipe": 10,
    "ready/stress*": 11 + 12,
    "ready/others": 13,
    "ready/unknown": 14,
    "lock/urcu*": 15,
    "lock/others": 16,
}


def figure(figures: RoundFigures, name: str, threads: str = "handler*") -> Figure:
    found = figures.figure(threads, name)
    assert found is not None
    return found


def test_rounds_are_counted_by_class(figures: RoundFigures) -> None:
    assert figures.rounds() == {"handler*": 2, "main": 1}
    assert (figures.samples, figures.window_ns) == (3, 900_000)
    counted = {f"{part}.{what}" for part in ("write", "syscall 999", "faults")
               for what in ("count", "mean")}  # fmt: skip
    whole = {LENGTH, "cause/kernel", "user", "kernel", *(f"{part}.round" for part in PARTS)}
    assert figures.names("handler*") == whole | counted


def test_each_part_is_that_of_the_mean_round(figures: RoundFigures) -> None:
    assert figure(figures, LENGTH).estimate.value == 200_000
    for name, parts in {**PARTS, "stopped": 0}.items():
        found = figure(figures, f"{name}.round")
        assert (found.unit, found.idle) == ("ns", False)
        assert found.estimate.value == 2000 * parts
        assert found.weight == 1 / 200_000
    assert figure(figures, "write.round", "main").estimate.value == 68 * 5000


def test_shares_are_of_all_time(figures: RoundFigures) -> None:
    for name, share in (("user", 0.4), ("kernel", 0.6), ("ready", 0.0)):
        found = figure(figures, name)
        assert (found.unit, found.weight, found.idle) == ("share", 1.0, False)
        assert found.estimate.value == share
    caused = figure(figures, "cause/kernel")
    assert (caused.unit, caused.estimate.value, caused.estimate.samples) == ("share", 1.0, 2)
    assert figure(figures, "cause/ready").estimate.value == 0.0


def test_calls_have_a_number_and_a_mean(figures: RoundFigures) -> None:
    for name, parts in (("write", 68), ("faults", 17)):
        count = figure(figures, f"{name}.count")
        assert (count.unit, count.idle, count.count) == ("count", False, 2 * LEAST_COUNT)
        assert count.estimate.value == LEAST_COUNT
        # A call more is so much more of a round as it takes.
        mean_ns = parts * 4000 / (2 * LEAST_COUNT)
        assert count.weight == pytest.approx(mean_ns / 200_000)
        mean = figure(figures, f"{name}.mean")
        assert (mean.unit, mean.idle, mean.count) == ("ns", False, 2 * LEAST_COUNT)
        assert mean.estimate.value == mean_ns
        assert mean.weight == pytest.approx(LEAST_COUNT / 200_000)


def test_of_few_calls_there_is_no_mean(figures: RoundFigures) -> None:
    assert figures.figure("main", "write.mean") is None
    assert figure(figures, "write.count", "main").estimate.value == 1
    assert figures.figure("handler*", "read.mean") is None
    none = figure(figures, "read.count")
    assert (none.estimate.value, none.weight, none.count) == (0, 0, 0)


def test_what_the_verdict_found_is_the_cause() -> None:
    figures = RoundFigures()
    found = Finding("throttled", "limit", 0.5, 31, "It was throttled.")
    remark = Finding("wait_poll", "program", 0.9, 31, "It waited.", remark=True)
    figures.add(replace(round_of(1000), verdict=(found, remark)))
    figures.add(replace(round_of(1000), verdict=(remark,)))
    assert figure(figures, "cause/throttled").estimate.value == 0.5
    assert figure(figures, "cause/kernel").estimate.value == 0.5
    assert figure(figures, "cause/wait_poll").estimate.value == 0


def test_blocks_that_are_taken_together_add_up() -> None:
    one, both, other = RoundBlock(), RoundBlock(), RoundBlock()
    one.add(round_of(1000))
    other.add(round_of(3000))
    for ns in (1000, 3000):
        both.add(round_of(ns))
    one.merge(other)
    assert vars(one) == vars(both)
    assert (one.rounds, one.ns) == (2, 400_000)
