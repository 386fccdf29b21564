"""Which signal, or tracer, can have stopped a thread: the last that the programs saw."""

from types import SimpleNamespace
from typing import Any

import pytest

from kernel_delay.capture import stops
from kernel_delay.loader._records import ffi

MS = 1_000_000
PID = 7


def programs(**fields: int) -> Any:
    """Programs that saw a SIGSTOP of process 9 at 100 ms."""
    control = ffi.new("struct control *")
    control.stop_signal, control.stop_sender, control.stop_process = 19, 9, PID
    control.signal_stop_ns = 100 * MS
    for name, value in fields.items():
        setattr(control, name, value)
    return SimpleNamespace(control=control)


def by_gdb(stopped_ns: int, **fields: int) -> Any:
    found = programs(tracer=99, traced=PID, tracer_stop_ns=stopped_ns, **fields)
    found.control.tracer_comm = b"gdb"
    return found


@pytest.fixture(autouse=True)
def no_tracer_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stops, "tracer", lambda pid, tids: None)


def test_signal_before_a_sigcont_is_forgotten() -> None:
    over = programs(stop_end_ns=150 * MS)
    assert stops.state_of_round(over, PID, PID, 200 * MS, 300 * MS).stopper is None
    assert stops.stopper_in_window(over, PID, 200 * MS, are_several=False) is None
    assert stops.state_of_round(over, PID, PID, 50 * MS, 300 * MS).stopper is not None


def test_signal_that_still_stops_it_is_named() -> None:
    found = stops.stopper_in_window(programs(), PID, 200 * MS, are_several=False)
    assert found is not None
    assert (found.signal, found.pid) == (19, 9)


def test_tracer_of_a_round_is_named_after_it_left() -> None:
    found = stops.state_of_round(
        by_gdb(250 * MS, stop_end_ns=260 * MS), PID, PID, 200 * MS, 300 * MS
    )
    assert found.tracer == ("gdb", 99)
    assert found.tracer_stopped
    assert found.tracer_left
    assert found.stopper is None


def test_signal_and_tracer_of_a_round_are_both_named() -> None:
    found = stops.state_of_round(
        by_gdb(250 * MS, stop_end_ns=260 * MS), PID, PID, 50 * MS, 300 * MS
    )
    assert found.tracer == ("gdb", 99)
    assert not found.tracer_stopped
    assert found.stopper is not None
    assert not found.stopper.alone


def test_tracer_of_an_earlier_round_is_not_named() -> None:
    found = stops.state_of_round(
        by_gdb(150 * MS, stop_end_ns=160 * MS), PID, PID, 200 * MS, 300 * MS
    )
    assert found.tracer is None
    assert not found.tracer_stopped


def test_tracer_that_left_within_a_window_is_named() -> None:
    assert stops.tracer_in_window(by_gdb(250 * MS), PID, 200 * MS) == ("gdb", 99)
    assert stops.tracer_in_window(by_gdb(150 * MS), PID, 200 * MS) is None
    assert stops.tracer_in_window(by_gdb(250 * MS), 8, 200 * MS) is None
