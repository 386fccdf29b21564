"""While one window is reported the next ones are taken, and what is missed is counted."""

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import SessionOptions
from kernel_delay.loader._records import lib
from kernel_delay.reporters import text
from tests.emulation import scaled
from tests.integration.triggers.sessions import HANGS_NS, StartCommand, session, trigger
from tests.integration.triggers.targets import StartTarget, Target

WINDOWS = scaled(1_000)
PERIOD_NS = 1_000_000
TOO_MANY = lib.WINDOWS + 100

# Of thousands of windows the edges matter here, and not where each thread's time went.
TABLES_ALONE = SessionOptions(accounting=False)


@pytest.mark.long
def test_a_thousand_windows_a_second(
    start_rounds: StartTarget, start_command: StartCommand
) -> None:
    workload = start_rounds(PERIOD_NS)
    edges = ("--start-trigger", "up:round_work", "--stop-trigger", "ur:round_work")
    command = start_command("-p", workload.pid, *edges, "--sample-count", WINDOWS, "--json")
    command.wait_until_waiting()
    workload.go(WINDOWS)
    rounds = workload.rounds()
    assert command.end() == 0, command.stderr
    samples = command.json()
    for sample, known in zip(samples, rounds, strict=True):
        window = sample["window"]
        assert known.outer_start_ns <= window["start_ns"] <= known.inner_start_ns
        assert known.inner_stop_ns <= window["stop_ns"] <= known.outer_stop_ns
        assert sample["lost"]["missed_triggers"] == 0
    assert command.stderr == ""


def unread_windows(workload: Target) -> tuple[int, int, str]:
    """Hits while nobody reads: how many windows there are, how many missed, and the text."""
    plan = WindowPlan(
        sample_time_ns=1,
        count=1_000_000,
        start=trigger("up:round_work", workload.pid),
        stop=trigger("ur:round_work", workload.pid),
        timeout_ns=HANGS_NS,
    )
    with session(workload.pid, plan, options=TABLES_ALONE) as running:
        workload.go(TOO_MANY)
        workload.rounds()
        workload.finish()
        samples = list(running.samples())
    missed = sum(sample.lost.missed_triggers for sample in samples)
    return len(samples), missed, text.render(samples[0])


@pytest.mark.long
def test_hits_without_room_are_counted_and_reported(start_rounds: StartTarget) -> None:
    taken, missed, report = unread_windows(start_rounds(0))
    assert missed > 0
    assert taken + missed == TOO_MANY
    hits = "hit of the start trigger was" if missed == 1 else "hits of the start trigger were"
    assert f"WARNING: {missed:,} {hits} missed" in report


@pytest.mark.long
def test_places_are_used_again(start_rounds: StartTarget) -> None:
    """More windows than there are places, while they are read: each as it is and in order."""
    workload = start_rounds(0)
    batch = TOO_MANY // 2
    plan = WindowPlan(
        sample_time_ns=1,
        count=2 * batch,
        start=trigger("up:round_work", workload.pid),
        stop=trigger("ur:round_work", workload.pid),
        timeout_ns=HANGS_NS,
    )
    with session(workload.pid, plan, options=TABLES_ALONE) as running:
        samples = running.samples()
        for _ in range(2):
            workload.go(batch)
            for known in workload.rounds():
                sample = next(samples)
                assert known.outer_start_ns <= sample.window.start_ns <= known.inner_start_ns
                assert known.inner_stop_ns <= sample.window.stop_ns <= known.outer_stop_ns
                assert sample.lost.missed_triggers == 0
