"""Which windows a plan makes, and what ends them: with a waiter that does not wait."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kernel_delay.capture import windows
from kernel_delay.capture.plan import TriggerPoints, WindowPlan
from kernel_delay.capture.schedule import Over, TriggeredWindows, timed_windows
from kernel_delay.errors import TimeoutExpiredError
from kernel_delay.loader._records import lib
from kernel_delay.loader.waiting import Ended
from tests.unit.windows import FakeNotices, FakeWaiter, new_control, windows_of

if TYPE_CHECKING:
    from kernel_delay.loader._records import ControlPointer

LENGTH_NS = 1_000_000
TRIGGER = TriggerPoints(text="up:work", points=())


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """No window opens too late, as on a busy machine where it is open 50 us later."""
    monkeypatch.setattr(windows, "LEAD_NS", 3_600_000_000_000)


def timed(plan: WindowPlan, *script: Ended) -> list[Over]:
    return list(timed_windows(plan, windows_of(new_control()), FakeWaiter(*script)))


def triggered(
    control: "ControlPointer",
    plan: WindowPlan,
    *script: Ended | Callable[[], None],
    reported: list[str] | None = None,
) -> list[Over]:
    tell = (lambda text: None) if reported is None else reported.append
    waiter = FakeWaiter(*script)
    return list(TriggeredWindows(plan, windows_of(control), waiter, FakeNotices(), tell))


def hit(control: "ControlPointer", length_ns: int = LENGTH_NS) -> Callable[[], None]:
    """What the programs do at the hit of a start trigger."""

    def publish() -> None:
        now_ns = lib.monotonic_ns()
        lib.publish_window(control, now_ns, now_ns + length_ns)

    return publish


def test_all_windows_of_a_plan_are_over_by_time() -> None:
    assert timed(WindowPlan(LENGTH_NS, count=3)) == [(1, "time"), (2, "time"), (3, "time")]


def test_late_window_opens_when_the_previous_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    own = windows_of(new_control())
    try_open = own.try_open
    late = iter([False, True])
    monkeypatch.setattr(
        own, "try_open", lambda length_ns: None if next(late, False) else try_open(length_ns)
    )
    over = timed_windows(WindowPlan(LENGTH_NS, count=2), own, FakeWaiter())
    assert next(over)[0] == own.newest
    assert next(over)[0] == own.newest


def test_interval_delays_the_opening_of_the_next_window() -> None:
    plan = WindowPlan(LENGTH_NS, count=2, interval_ns=1_000_000_000)
    waiter = FakeWaiter()
    before_ns = lib.monotonic_ns()
    assert list(timed_windows(plan, windows_of(new_control()), waiter)) == [
        (1, "time"),
        (2, "time"),
    ]
    pause_ns = waiter.waits[1]
    assert pause_ns is not None
    assert pause_ns >= before_ns + 1_000_000_000


@pytest.mark.parametrize("ended", ["interrupt", "exit"])
def test_end_of_a_wait_ends_window_and_plan(ended: Ended) -> None:
    assert timed(WindowPlan(LENGTH_NS, count=3), "time", ended) == [(1, "time"), (2, ended)]


def test_an_interrupt_between_windows_leaves_no_other() -> None:
    plan = WindowPlan(LENGTH_NS, count=3, interval_ns=1)
    assert timed(plan, "time", "interrupt") == [(1, "time")]


def test_a_hit_opens_each_window() -> None:
    control = new_control()
    plan = WindowPlan(LENGTH_NS, count=2, start=TRIGGER)
    opens = hit(control)
    assert triggered(control, plan, opens, "time", opens) == [(1, "time"), (2, "time")]


def test_a_window_too_short_does_not_count() -> None:
    control = new_control()
    plan = WindowPlan(LENGTH_NS, count=1, start=TRIGGER, stop=TRIGGER, shortest_ns=LENGTH_NS)
    short, long = hit(control, LENGTH_NS - 1), hit(control)
    assert triggered(control, plan, short, long) == [(1, "trigger"), (2, "trigger")]


def test_timeout_without_a_hit_names_the_trigger() -> None:
    plan = WindowPlan(LENGTH_NS, count=1, start=TRIGGER, timeout_ns=1)
    with pytest.raises(TimeoutExpiredError, match="no hit of up:work within 1e-09 s"):
        triggered(new_control(), plan, "time")


def test_window_without_its_stop_is_reported_before_the_error() -> None:
    plan = WindowPlan(LENGTH_NS, count=1, stop=TRIGGER, timeout_ns=1)
    own = windows_of(new_control())
    over = iter(TriggeredWindows(plan, own, FakeWaiter("time"), FakeNotices(), print))
    assert next(over) == (1, "timeout")
    with pytest.raises(TimeoutExpiredError):
        next(over)


def test_a_long_wait_is_reported_once() -> None:
    reported: list[str] = []
    control = new_control()
    plan = WindowPlan(LENGTH_NS, count=1, start=TRIGGER)
    assert triggered(control, plan, "time", hit(control), reported=reported) == [(1, "time")]
    assert reported == ["waiting for start trigger up:work (Ctrl-C ends)"]


def test_interrupted_wait_for_a_start_is_reported() -> None:
    reported: list[str] = []
    plan = WindowPlan(LENGTH_NS, count=1, start=TRIGGER)
    assert triggered(new_control(), plan, "interrupt", reported=reported) == []
    assert reported == ["interrupted while waiting for start trigger up:work"]


def test_interrupt_reports_only_the_newest_waiting_window() -> None:
    reported: list[str] = []
    control = new_control()
    for _ in range(5):
        hit(control)()
    plan = WindowPlan(LENGTH_NS, count=100, start=TRIGGER)
    windows, waiter = windows_of(control), FakeWaiter("time", "time")
    over = iter(TriggeredWindows(plan, windows, waiter, FakeNotices(), reported.append))
    assert next(over) == (1, "time")
    waiter.interrupt()
    assert list(over) == [(5, "time")]
    assert reported == [
        "interrupted: 3 windows that were measured are not reported",
        "interrupted while waiting for start trigger up:work",
    ]


def test_windows_waiting_at_exit_are_the_last() -> None:
    """Other processes may hit a trigger in the kernel for as long as they like."""
    reported: list[str] = []
    control = new_control()
    for _ in range(3):
        hit(control)()
    plan = WindowPlan(LENGTH_NS, count=100, start=TRIGGER)
    windows, waiter = windows_of(control), FakeWaiter("time", "time", "time")
    over = iter(TriggeredWindows(plan, windows, waiter, FakeNotices(), reported.append))
    assert next(over) == (1, "time")
    waiter.exit()
    assert next(over) == (2, "time")
    assert control.windows_done >= plan.count
    assert list(over) == [(3, "time")]
    assert reported == ["the process exited while waiting for start trigger up:work"]


def test_no_window_waits_for_a_stop_after_exit() -> None:
    plan = WindowPlan(LENGTH_NS, count=100, stop=TRIGGER)
    control = new_control()

    def stop() -> None:
        lib.end_window(control, control.epoch, lib.monotonic_ns())

    windows, waiter = windows_of(control), FakeWaiter(stop, stop)
    over = iter(TriggeredWindows(plan, windows, waiter, FakeNotices(), print))
    assert next(over) == (1, "trigger")
    waiter.exit()
    assert next(over, None) is None
