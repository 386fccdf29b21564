"""The memory that windows are opened and ended in."""

import time

import pytest

from kernel_delay.capture import windows as module
from kernel_delay.capture.windows import END_LEAD_NS, NEVER_NS, Windows
from kernel_delay.loader._records import lib
from tests.unit.windows import new_control, windows_of


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """No window opens too late, as on a busy machine where it is open 50 us later."""
    monkeypatch.setattr(module, "LEAD_NS", 3_600_000_000_000)


def test_window_has_its_length_and_begins_in_the_future(early: None) -> None:
    windows = windows_of(new_control())
    before_ns = lib.monotonic_ns()
    epoch = windows.open(1_000_000)
    start_ns, stop_ns = windows.boundaries(epoch)
    assert epoch == windows.newest == 1
    assert start_ns > before_ns
    assert stop_ns - start_ns == 1_000_000


def test_a_window_without_a_length_waits_for_its_stop() -> None:
    windows = windows_of(new_control())
    assert windows.boundaries(windows.open(None))[1] == NEVER_NS


def test_who_asked_is_reported_for_each_window(early: None) -> None:
    opened: list[int] = []
    windows = windows_of(new_control(), opened.append)
    windows.open(1000)
    windows.open(None)
    assert opened == [1, 2]


class Late:
    """The extension, in a process that has no CPU when windows were published for the first times.

    Another may be late too where the machine is busy.
    """

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def __getattr__(self, name: str) -> object:
        return getattr(lib, name)

    def publish_window(self, *arguments: object) -> None:
        getattr(lib, "publish_window")(*arguments)  # noqa: B009
        if self.times:
            self.times -= 1
            time.sleep(0.001)


def test_late_window_is_opened_again_and_its_predecessor_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "lib", Late())
    open_ones: list[tuple[int, int]] = []
    opened: list[int] = []
    windows = Windows(
        new_control(), lambda: open_ones.append(windows.boundaries(windows.newest)), opened.append
    )
    epoch = windows.open(1_000_000)
    assert epoch > 1
    assert opened == [epoch]
    assert windows.boundaries(epoch)[0] > windows.boundaries(1)[0]
    # What is forgotten then is all: none is open.
    assert set(open_ones) == {(NEVER_NS, NEVER_NS)}


def test_slow_cpu_gets_more_time_to_open_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "lib", Late(times=1_000_000))
    windows = windows_of(new_control())
    before_ns = lib.monotonic_ns()
    assert windows.boundaries(windows.open(1_000_000))[0] > before_ns + 1_000_000


def test_nothing_is_forgotten_before_another_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "lib", Late())
    forgotten: list[int] = []
    windows = Windows(new_control(), lambda: forgotten.append(windows.newest))
    assert windows.try_open(1_000_000) is None
    assert not forgotten
    windows.open(1_000_000)
    assert forgotten


def test_an_end_only_comes_earlier() -> None:
    windows = windows_of(new_control())
    long, short = windows.open(NEVER_NS // 2), windows.open(1)
    short_stop_ns = windows.boundaries(short)[1]
    windows.end(long)
    windows.end(short)
    assert windows.boundaries(long)[1] <= lib.monotonic_ns() + END_LEAD_NS
    assert windows.boundaries(short)[1] == short_stop_ns


def test_places_are_freed_many_at_once() -> None:
    control = new_control()
    windows = windows_of(control)
    many = lib.WINDOWS // 4
    epochs = [windows.open(1)]
    # One that is opened too late is passed over: there may be more epochs than calls.
    while epochs[-1] < many:
        epochs.append(windows.open(1))
    windows.free(many - 1)
    assert windows.boundaries(epochs[0])[1] != NEVER_NS
    windows.free(epochs[-1])
    assert control.windows_kept == epochs[-1]
    assert windows.boundaries(epochs[0]) == (NEVER_NS, NEVER_NS)
    assert windows.boundaries(epochs[-1])[1] != NEVER_NS


def test_no_trigger_opens_a_window_any_more() -> None:
    control = new_control()
    windows_of(control).open_no_more()
    assert control.windows_done >= 1 << 63
