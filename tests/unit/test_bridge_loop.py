"""Pairing the main loop's probes, and what is said of it."""

import itertools
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.monitors.bridge_loop.events import BridgeLoop, Interval, LoopEvent
from kernel_delay.monitors.bridge_loop.report import interval_line, render

START_NS = 5 * 10**12


def passes(durations: list[tuple[int, int]], tid: int = 411887) -> list[LoopEvent]:
    """The events of passes that run and then wait so long, and of the next one's start."""
    events = [LoopEvent("run_start", START_NS, tid, "ovs-vswitchd")]
    for run_ns, wait_ns in durations:
        at = events[-1].time_ns + run_ns
        events.append(LoopEvent("poll_block", at, tid, "ovs-vswitchd"))
        events.append(LoopEvent("run_start", at + wait_ns, tid, "ovs-vswitchd"))
    return events


durations = st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**11)), max_size=30)


@given(durations)
def test_every_pass_gives_its_run_and_its_wait(times: list[tuple[int, int]]) -> None:
    loop = BridgeLoop()
    found = [interval for event in passes(times) if (interval := loop.add(event))]
    assert [i.duration_ns for i in found if i.kind == "run"] == [run for run, _ in times]
    assert [i.duration_ns for i in found if i.kind == "wait"] == [wait for _, wait in times]
    assert loop.passes == len(times)
    assert loop.duration_ns == sum(run + wait for run, wait in times)
    assert loop.runs.quantiles.total == sum(run for run, _ in times)
    assert loop.runs.quantiles.max == max((run for run, _ in times), default=None)
    assert sum(b.count for b in loop.waits.linear.buckets()) == len(times)
    assert sum(b.count for b in loop.waits.log2.buckets()) == len(times)
    assert loop.unpaired == 0


@given(durations, st.sets(st.integers(0, 60)))
def test_a_lost_event_loses_its_intervals_and_is_counted(
    times: list[tuple[int, int]], lost: set[int]
) -> None:
    true = passes(times)
    left = [event for number, event in enumerate(true) if number not in lost]
    loop = BridgeLoop()
    for event in left:
        loop.add(event)
    repeats = sum(a.probe == b.probe for a, b in itertools.pairwise(left))
    assert loop.unpaired == repeats
    assert loop.passes + loop.waits.quantiles.count == max(len(left) - 1, 0) - repeats


def test_a_known_loss_leaves_no_interval_across_it() -> None:
    loop = BridgeLoop()
    first, second, _, _, last, *_ = passes([(10, 20)] * 3)
    assert loop.add(first) is None
    assert loop.add(second) is not None
    loop.lost()
    assert loop.add(last) is None
    assert loop.unpaired == 0


def test_threads_are_paired_apart() -> None:
    loop = BridgeLoop()
    one, other = passes([(100, 200)], tid=1), passes([(300, 400)], tid=2)
    found = [
        interval
        for pair in zip(one, other, strict=True)
        for event in pair
        if (interval := loop.add(event))
    ]
    assert [(i.tid, i.kind, i.duration_ns) for i in found] == [
        (1, "run", 100),
        (2, "run", 300),
        (1, "wait", 200),
        (2, "wait", 400),
    ]


def test_passes_per_second_are_of_the_time_seen() -> None:
    loop = BridgeLoop()
    for event in passes([(250_000_000, 250_000_000)] * 4):
        loop.add(event)
    assert loop.passes_per_second == Fraction(2)
    assert BridgeLoop().passes_per_second is None


def test_pass_and_wait_lines_match_the_slides() -> None:
    run = Interval("run", 411887, "ovs-vswitchd", 0, 90_274)
    wait = Interval("wait", 411887, "ovs\x1b", 0, (3600 * 11 + 61) * 10**9 + 500_756_124)
    assert interval_line(run) == (
        "- [411887@ovs-vswitchd] bridge run loop time : 0:00:00.000090274"
    )
    assert interval_line(wait) == (r"- [411887@ovs\x1b] poll_block() wait time: 11:01:01.500756124")


def test_the_summary_has_both_histograms_and_the_figures() -> None:
    loop = BridgeLoop()
    for event in passes([(90_000, 500_000_000)] * 99 + [(2_500_000, 40_000_000_000)]):
        loop.add(event)
    lines = render(loop).splitlines()
    assert "@bridge_run_time:" in lines
    assert f"[0, 1000)     99 |{'@' * 52}|" in lines
    assert f"[1000, 2000)   0 |{' ' * 52}|" in lines
    assert f"[2000, 3000)   1 |{' ' * 52}|" in lines
    assert f"[480000, 510000)      99 |{'@' * 52}|" in lines
    assert f"[30000000, ...)        1 |{' ' * 52}|" in lines
    assert "100 passes in 0:01:29.511410000, 1.12 per second" in lines
    assert "run   p50 90.111 us, p99 90.111 us, max 2500.000 us" in lines
    assert lines[-1].startswith("wait  p50 ")
    log2 = render(loop, log2=True).splitlines()
    assert f"[64, 128)     99 |{'@' * 52}|" in log2


def test_a_loop_never_seen_is_said() -> None:
    assert render(BridgeLoop()).count("(none was seen)") == 2
