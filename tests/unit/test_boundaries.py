"""What is read at a window's boundaries is told only if it was read there."""

import itertools
import os
import time

import pytest

from kernel_delay.capture import boundaries as module
from kernel_delay.capture.boundaries import SHORTEST_NS, Boundaries, Readings
from kernel_delay.capture.threads.task_times import with_scheduling
from kernel_delay.host.system_state import Snapshot, between
from tests.unit.samples import bare_thread, timed_thread

WINDOW_NS = 500_000_000

# The longest, of CONFIG_HZ=100, in which the kernel counts idle time.
TICK_NS = 10_000_000


def snapshots() -> Boundaries[Snapshot]:
    return Boundaries(lambda: Snapshot.take(os.getpid()))


class Clock:
    """CLOCK_MONOTONIC of the test's own."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "lib", clock)
    return clock


def test_a_window_is_reported_as_it_was_seen(clock: Clock) -> None:
    boundaries = snapshots()
    before_ns = time.monotonic_ns()
    boundaries.open(7, SHORTEST_NS)
    time.sleep(0.2)
    clock.now_ns = SHORTEST_NS
    seen = boundaries.close(7, 0, SHORTEST_NS)
    after_ns = time.monotonic_ns()
    assert seen is not None
    assert not seen.is_late
    found = between(seen.before, seen.after, os.getpid())
    assert {use.cpu for use in found.cpus} >= os.sched_getaffinity(0)
    assert all(use.idle_ns <= after_ns - before_ns + TICK_NS for use in found.cpus)


@pytest.mark.parametrize(
    ("apart_ns", "is_late"),
    [(WINDOW_NS // 20, False), (WINDOW_NS // 20 + 1, True), (WINDOW_NS, True)],
)
@pytest.mark.parametrize("at_the_end", [False, True])
def test_window_read_too_late_is_marked_as_late(
    clock: Clock, apart_ns: int, is_late: bool, at_the_end: bool
) -> None:
    boundaries = Boundaries(lambda: "counters")
    start_ns = 10 * WINDOW_NS
    clock.now_ns = start_ns if at_the_end else start_ns + apart_ns
    boundaries.open(1, WINDOW_NS)
    stop_ns = start_ns + WINDOW_NS
    clock.now_ns = stop_ns + apart_ns if at_the_end else stop_ns
    assert boundaries.close(1, start_ns, stop_ns) == Readings("counters", "counters", is_late)


def test_window_read_long_after_its_end_is_unreported(clock: Clock) -> None:
    boundaries = Boundaries(lambda: "counters")
    boundaries.open(1, WINDOW_NS)
    clock.now_ns = 2 * WINDOW_NS + 1
    assert boundaries.close(1, 0, WINDOW_NS) is None


def test_short_windows_are_not_looked_at() -> None:
    boundaries = snapshots()
    boundaries.open(1, SHORTEST_NS - 1)
    now_ns = time.monotonic_ns()
    assert boundaries.close(1, now_ns, now_ns + SHORTEST_NS) is None


def test_window_not_seen_to_open_is_unreported() -> None:
    now_ns = time.monotonic_ns()
    assert snapshots().close(3, now_ns - WINDOW_NS, now_ns) is None


@pytest.mark.parametrize(("ready_ms", "asked"), [(4, False), (5, True)])
def test_threads_that_waited_for_a_cpu_are_asked_about(ready_ms: int, asked: bool) -> None:
    waited = timed_thread(os.getpid(), "waited", ready=ready_ms)
    (found,) = with_scheduling([waited], WINDOW_NS)
    assert (found.scheduling is not None) == asked


def test_threads_whose_scheduling_changed_have_no_scheduling() -> None:
    waited = timed_thread(os.getpid(), "waited", ready=400)
    (found,) = with_scheduling([waited], WINDOW_NS, {waited.tid})
    assert found.scheduling is None


def test_sums_of_threads_that_ended_are_not_asked_about() -> None:
    (ended, unknown) = with_scheduling(
        [timed_thread(0, "ended", ready=400), bare_thread(5, "a")], WINDOW_NS
    )
    assert ended.scheduling is None
    assert unknown.scheduling is None


def test_window_ends_with_what_was_read_as_the_next_opened(clock: Clock) -> None:
    numbers = itertools.count()
    boundaries = Boundaries(lambda: next(numbers))
    boundaries.open(1, WINDOW_NS)
    clock.now_ns = WINDOW_NS
    boundaries.open(2, WINDOW_NS)
    assert boundaries.close(1, 0, WINDOW_NS) == Readings(0, 1, is_late=False)
    # No window has opened since the end of this one.
    clock.now_ns = 2 * WINDOW_NS
    assert boundaries.close(2, WINDOW_NS, 2 * WINDOW_NS) == Readings(1, 2, is_late=False)
