"""Windows against what the measured process itself knows of them."""

from itertools import islice

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.model import Sample
from tests.emulation import scaled
from tests.integration.triggers.sessions import HANGS_NS, session, trigger
from tests.integration.triggers.targets import Round, StartTarget

BATCH = scaled(2_000)  # fewer than the kernel has room for, so that none depends on our speed
PERIOD_NS = 100_000
SLEEP_NS = 20_000  # of rounds.c


def assert_in_bounds(sample: Sample, known: Round) -> None:
    """The boundaries lie where the probes are: within what the process's own clock says."""
    window = sample.window
    assert known.outer_start_ns <= window.start_ns <= known.inner_start_ns
    assert known.inner_stop_ns <= window.stop_ns <= known.outer_stop_ns
    assert window.duration_ns == window.stop_ns - window.start_ns


def has_exact_counts(sample: Sample, pid: int, known: Round) -> bool:
    """Whether it has each call that was made within, and no other one."""
    calls = {
        stats.name: stats
        for thread in sample.threads
        for stats in thread.syscalls
        if stats.count  # others only have time: they were on the way at a boundary
    }
    counts = {name: stats.count for name, stats in calls.items() if name != "clock_gettime"}
    expected = {"getppid": known.getppids, "nanosleep": known.nanosleeps}
    assert {thread.tid for thread in sample.threads} <= {pid}
    if counts != {name: count for name, count in expected.items() if count}:
        return False
    if known.nanosleeps:
        slept_ns = calls["nanosleep"].total_ns
        assert known.nanosleeps * SLEEP_NS <= slept_ns <= sample.window.duration_ns
    return True


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "stop", "batches"),
    [
        ("u:kd_rounds:start", "u:kd_rounds:stop", 2),
        ("up:round_work", "ur:round_work", 1),
    ],
)
def test_every_window_is_exact(
    start_rounds: StartTarget, start: str, stop: str, batches: int
) -> None:
    workload = start_rounds(PERIOD_NS)
    plan = WindowPlan(
        sample_time_ns=1,
        count=batches * BATCH,
        start=trigger(start, workload.pid),
        stop=trigger(stop, workload.pid),
        timeout_ns=HANGS_NS,
    )
    inexact = missed = 0
    with session(workload.pid, plan) as running:
        samples = running.samples()
        for _ in range(batches):
            workload.go(BATCH)
            rounds = workload.rounds()
            for sample, known in zip(islice(samples, BATCH), rounds, strict=True):
                assert_in_bounds(sample, known)
                inexact += not has_exact_counts(sample, workload.pid, known)
                missed += sample.lost.missed_events
                assert (sample.lost.missed_triggers, sample.lost.dropped_records) == (0, 0)
        assert list(samples) == []
    # The kernel may skip a program, and that is told: then at most so many counts are wrong.
    assert inexact <= missed
