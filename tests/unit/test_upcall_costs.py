"""Costs of sets and their statistics, in integers to the last step."""

import statistics
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.monitors.upcalls.costs import analyse, costs_of, describe
from kernel_delay.monitors.upcalls.events import RecvUpcall
from kernel_delay.monitors.upcalls.join import join
from tests.unit.upcall_trips import World

seeds = st.integers(0, 1 << 32)
sizes = st.lists(st.integers(1, 64), min_size=1, max_size=4)


@given(seeds, sizes)
def test_the_costs_of_a_set_add_up_exactly(seed: int, batches: list[int]) -> None:
    events, _ = World(seed).run(batches)
    for found in join(events).sets:
        costs = costs_of(found)
        if not found.complete:
            continue
        assert costs.total_ns is not None
        assert costs.overhead_ns is not None
        assert costs.kernel_to_vswitchd_ns is not None
        assert costs.lookup_ns is not None
        assert costs.put_to_execute_ns is not None
        assert costs.execute_to_kernel_ns is not None
        trip_ns = [event.time_ns for event in found.events]
        assert costs.total_ns == trip_ns[-1] - trip_ns[0]
        assert costs.total_ns == (
            costs.kernel_to_vswitchd_ns
            + costs.lookup_ns
            + costs.put_to_execute_ns
            + costs.execute_to_kernel_ns
        )
        assert costs.overhead_ns == costs.total_ns - costs.lookup_ns


@given(seeds, sizes)
def test_each_cost_counts_sets_that_have_both_ends(seed: int, batches: list[int]) -> None:
    events, trips = World(seed).run(batches)
    analysis = analyse(join(events))
    puts = sum(bool(trip[2] and trip[4]) for trip in trips)
    executes = sum(bool(trip[4]) for trip in trips)
    counts = [
        cost.count if cost else 0
        for cost in (
            analysis.kernel_to_vswitchd,
            analysis.execute_to_kernel,
            analysis.overhead,
            analysis.total,
        )
    ]
    assert counts == [len(trips), executes, puts, executes]
    assert sum(count for _, _, count in analysis.upcalls) == len(trips)
    received = sorted({(e.comm, e.tid) for e in events if isinstance(e, RecvUpcall)})
    assert [(comm, tid) for comm, tid, _ in analysis.upcalls] == received


@given(st.lists(st.integers(-(10**6), 1 << 62), min_size=1, max_size=50))
def test_the_statistics_are_those_of_the_values(values: list[int]) -> None:
    found = describe([None, *values, None])
    assert found is not None
    assert (found.count, found.min_ns, found.max_ns) == (len(values), min(values), max(values))
    exact = [Fraction(value) for value in values]
    assert found.mean_ns == pytest.approx(float(statistics.mean(exact)), rel=1e-12)
    assert found.variance_ns2 == pytest.approx(float(statistics.pvariance(exact)), rel=1e-12)
    assert found.median_ns == pytest.approx(float(statistics.median(exact)), rel=1e-12)


def test_no_values_have_no_statistics() -> None:
    assert describe([]) is None
    assert describe([None]) is None


def test_an_action_s_upcalls_are_no_cost() -> None:
    events, _ = World(7).run([5])
    actions = [
        msgspec.structs.replace(event, kind="action") if hasattr(event, "kind") else event
        for event in events
    ]
    analysis = analyse(join(actions))
    assert analysis.sets == ()
    assert analysis.total is None
    assert analysis.batch_sizes == (5,)
