"""The options of rounds: what they mean, and which make no sense."""

import argparse
import os

import pytest

from kernel_delay.capture.plan import EventPlan, RoundPlan, TriggerPoints
from kernel_delay.commands.options import rounds, windows
from kernel_delay.errors import UsageError
from kernel_delay.host.target import ProcessTarget, find_target
from kernel_delay.probes import Tracepoint

MIB = 1 << 20


@pytest.fixture
def target() -> ProcessTarget:
    return find_target(os.getpid())


def given(*options: str) -> rounds.RoundRequest:
    parser = argparse.ArgumentParser()
    rounds.add_arguments(parser)
    return rounds.request(parser.parse_args(options))


def planned(target: ProcessTarget, *options: str) -> RoundPlan:
    return rounds.plan(given(*options), target, 64 * MIB)


def kept(*options: str, room: int = 512 * MIB) -> EventPlan:
    events = rounds.events(given(*options), room)
    assert events is not None
    return events


def test_a_second_is_long_and_there_is_no_timeline(target: ProcessTarget) -> None:
    plan = planned(target)
    assert (plan.threshold_ns, plan.max_slices, plan.record_bytes) == (10**9, None, 16 * MIB)


def test_a_timeline_is_as_long_as_is_asked(target: ProcessTarget) -> None:
    assert planned(target, "--timeline").max_slices == rounds.SLICES
    assert planned(target, "--timeline", "--max-slices", "64").max_slices == 64


def test_defaults_of_the_options_are_those_of_a_request() -> None:
    assert given() == rounds.RoundRequest()


def test_slices_of_no_timeline_are_refused(target: ProcessTarget) -> None:
    with pytest.raises(UsageError, match="add --timeline"):
        planned(target, "--max-slices", "64")


def test_timelines_above_half_of_the_memory_are_refused(target: ProcessTarget) -> None:
    assert planned(target, "--timeline", "--max-slices", "16384").timeline_bytes == 32 * MIB
    with pytest.raises(UsageError, match=r"16,385 slices need 64 MiB, .*lower --max-slices"):
        planned(target, "--timeline", "--max-slices", "16385")


def test_a_trigger_in_the_kernel_is_refused(
    target: ProcessTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = TriggerPoints("t:sched:sched_switch", (Tracepoint("sched", "sched_switch", 1),))
    monkeypatch.setattr(windows, "trigger_points", lambda text, pid: switch)
    with pytest.raises(UsageError, match="a round starts and ends in user code"):
        planned(target, "--start-trigger", switch.text, "--stop-trigger", switch.text)


def test_calls_are_kept_from_a_tenth_of_the_threshold() -> None:
    assert kept("--threshold", "0.5").shortest_ns == 50_000_000
    assert kept("--threshold", "0").shortest_ns == rounds.SHORTEST_CALL_NS
    assert rounds.events(given("--no-stacks"), 512 * MIB) is None


def test_with_little_memory_fewer_stacks_are_kept() -> None:
    assert kept(room=64 * MIB).max_stacks == 256
    assert kept().max_stacks == rounds.MOST_STACKS
