"""Start and stop hits of several threads at the same moment.

Each thread remembers its clock before and after each of its hits. What is
asserted holds whatever the scheduler does: a hit that began after another one
had ended came after it.
"""

from bisect import bisect_left
from itertools import pairwise

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.model import Sample, TriggerHit
from tests.emulation import scaled
from tests.integration.triggers.sessions import HANGS_NS, session, trigger
from tests.integration.triggers.targets import Hit, StartTarget, Target

HITS = scaled(1_000)  # of each thread; there is room for all windows they can open


class Hits:
    """Hits of some threads or of one, by their own word."""

    def __init__(self, hits: list[Hit]) -> None:
        self._all = sorted(hits, key=lambda hit: hit.before_ns)
        self._begun = [hit.before_ns for hit in self._all]

    def by_thread(self) -> dict[int, "Hits"]:
        tids = {hit.tid for hit in self._all}
        return {tid: Hits([hit for hit in self._all if hit.tid == tid]) for tid in tids}

    def at(self, timestamp_ns: int) -> Hit:
        """The hit at that time, of one thread; there must be one."""
        hit = self._all[bisect_left(self._begun, timestamp_ns + 1) - 1]
        assert hit.before_ns <= timestamp_ns <= hit.after_ns
        return hit

    def surely_between(self, first: Hit, last: Hit) -> list[Hit]:
        """Those that began after `first` had ended, and ended before `last` began."""
        begin = bisect_left(self._begun, first.after_ns + 1)
        end = bisect_left(self._begun, last.before_ns)
        return [hit for hit in self._all[begin:end] if hit.after_ns < last.before_ns]


def hit_at(of_thread: dict[int, Hits], by: TriggerHit | None, timestamp_ns: int) -> Hit:
    """The hit that made a boundary: the thread says so itself."""
    assert by is not None
    return of_thread[by.tid].at(timestamp_ns)


def closed_windows(
    workload: Target, start: str, stop: str, *, same_thread: bool = False
) -> tuple[list[Sample], list[Hit]]:
    """The windows that a trigger closed, and the workload's own hits."""
    plan = WindowPlan(
        sample_time_ns=1,
        count=1_000_000,
        start=trigger(start, workload.pid),
        stop=trigger(stop, workload.pid),
        same_thread=same_thread,
        timeout_ns=HANGS_NS,
    )
    with session(workload.pid, plan) as running:
        workload.go()
        hits = workload.hits()
        workload.finish()
        samples = list(running.samples())
    assert sum(sample.lost.missed_triggers for sample in samples) == 0
    return [sample for sample in samples if sample.window.ended_by == "trigger"], hits


def assert_in_order(samples: list[Sample]) -> None:
    """No window is empty or negative, and none begins before the last one ended."""
    assert samples
    for sample in samples:
        assert sample.window.start_ns < sample.window.stop_ns
    for sample, following in pairwise(samples):
        assert sample.window.stop_ns <= following.window.start_ns


@pytest.mark.parametrize("roles", ["sp", pytest.param("sspp", marks=pytest.mark.long), "bbb"])
def test_window_is_from_first_start_to_the_next_stop(start_hits: StartTarget, roles: str) -> None:
    workload = start_hits(roles, HITS)
    samples, hits = closed_windows(workload, "up:start_hit", "up:stop_hit")
    assert_in_order(samples)
    starts = Hits([hit for hit in hits if hit.role == "s"])
    stops = Hits([hit for hit in hits if hit.role == "p"])
    starts_of, stops_of = starts.by_thread(), stops.by_thread()
    last_stop = Hit(0, "p", 0, 0)
    for window in (sample.window for sample in samples):
        start = hit_at(starts_of, window.start_trigger, window.start_ns)
        stop = hit_at(stops_of, window.stop_trigger, window.stop_ns)
        assert starts.surely_between(last_stop, start) == []
        assert stops.surely_between(start, stop) == []
        last_stop = stop


def test_only_the_thread_that_opened_a_window_closes_it(start_hits: StartTarget) -> None:
    workload = start_hits("bbb", HITS)
    samples, hits = closed_windows(workload, "up:start_hit", "up:stop_hit", same_thread=True)
    assert_in_order(samples)
    starts = Hits([hit for hit in hits if hit.role == "s"])
    stops = Hits([hit for hit in hits if hit.role == "p"])
    starts_of, stops_of = starts.by_thread(), stops.by_thread()
    for window in (sample.window for sample in samples):
        start = hit_at(starts_of, window.start_trigger, window.start_ns)
        stop = hit_at(stops_of, window.stop_trigger, window.stop_ns)
        assert start.tid == stop.tid
        assert stops_of[start.tid].surely_between(start, stop) == []


@pytest.mark.parametrize(
    "roles",
    ["s", pytest.param("ss", marks=pytest.mark.long), pytest.param("sss", marks=pytest.mark.long)],
)
def test_windows_of_one_trigger_abut(start_hits: StartTarget, roles: str) -> None:
    workload = start_hits(roles, HITS)
    samples, hits = closed_windows(workload, "up:start_hit", "up:start_hit")
    assert_in_order(samples)
    known = Hits(hits)
    known_of = known.by_thread()
    for sample, following in pairwise(samples):
        assert sample.window.stop_ns == following.window.start_ns
        assert sample.window.stop_trigger == following.window.start_trigger
    for window in (sample.window for sample in samples):
        start = hit_at(known_of, window.start_trigger, window.start_ns)
        stop = hit_at(known_of, window.stop_trigger, window.stop_ns)
        assert known.surely_between(start, stop) == []
    if roles == "s":
        assert len(samples) == len(hits) - 1
