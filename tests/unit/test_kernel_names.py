"""The kernel's names, held against those that this system has."""

import signal

import pytest

from kernel_delay.host.kernel_names import SIGNALS, SIGRTMIN, signal_name


def test_signals_are_those_of_this_system() -> None:
    assert signal.SIGRTMIN == SIGRTMIN
    for number in signal.valid_signals():
        if number <= len(SIGNALS):
            assert signal_name(number) == signal.Signals(number).name
    assert len(SIGNALS) == max(each for each in signal.valid_signals() if each < SIGRTMIN)


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "signal 0"), (33, "signal 33"), (34, "SIGRTMIN"), (37, "SIGRTMIN+3")],
)
def test_other_signals_have_numbers(number: int, name: str) -> None:
    assert signal_name(number) == name
