"""What `kernel-delay` alone proposes to measure."""

import io
import os

import pytest

from kernel_delay.cli import main
from kernel_delay.commands.options import target
from kernel_delay.errors import NoInputError
from kernel_delay.host import losing
from kernel_delay.host.losing import Losing, LossSurvey, Thread, lost
from kernel_delay.host.target import process_ids
from kernel_delay.reporters.layout import IN_A_PIPE, Layout
from kernel_delay.reporters.losing import render

PID = os.getpid()
INTERVAL_NS = 200_000_000


def loss(before: Thread, after: Thread, throttled_ns: int = 0) -> Losing:
    return lost(PID, {1: before}, {1: after, 2: Thread("D", 0, 99)}, throttled_ns, INTERVAL_NS)


def test_wait_for_a_cpu_is_what_the_kernel_counted() -> None:
    found = loss(Thread("S", 10, 5), Thread("S", 20, 1_005))
    assert (found.waited_ns, found.waiting, found.uninterruptible) == (1_000, 1, 0)


def test_unfinished_wait_lasts_the_whole_interval() -> None:
    assert loss(Thread("R", 10, 5), Thread("R", 10, 5)).waited_ns == INTERVAL_NS
    assert loss(Thread("R", 10, 5), Thread("R", 11, 5)).waited_ns == 0


def test_throttled_thread_did_not_wait_for_a_cpu() -> None:
    found = loss(Thread("R", 10, 5), Thread("R", 10, 5), throttled_ns=7)
    assert (found.waited_ns, found.throttled_ns) == (0, 7)


def test_uninterruptible_sleep_counts_if_it_lasted() -> None:
    assert loss(Thread("D", 10, 5), Thread("D", 10, 5)).uninterruptible == 1
    assert loss(Thread("D", 10, 5), Thread("D", 11, 5)).uninterruptible == 0
    assert loss(Thread("S", 10, 5), Thread("D", 10, 5)).uninterruptible == 0


SURVEY = LossSurvey(
    INTERVAL_NS,
    (
        Losing(4_194_303, "a_long_name\x1b", 1_600_000_000, 200, 12, 153_000_000),
        Losing(5, "postgres", uninterruptible=3),
        *(Losing(pid, "python3", 20_000_000, 1) for pid in range(10, 30)),
    ),
)


def test_each_line_can_be_pasted_and_says_why() -> None:
    lines = render(SURVEY, IN_A_PIPE).splitlines()
    assert lines[2] == "kernel-delay where -p 5  # postgres: 3 threads in state D"
    assert lines[3] == "kernel-delay -p 10       # python3: waited 20.0 ms for a CPU"
    assert lines[-1] == "# 12 more lost less."


def test_nothing_lost_says_so() -> None:
    assert "no process waited long" in render(LossSurvey(INTERVAL_NS, ()), IN_A_PIPE)


@pytest.mark.parametrize("survey", [SURVEY, LossSurvey(INTERVAL_NS, ())])
def test_proposals_fit_80_columns(survey: LossSurvey) -> None:
    text = render(survey, Layout(width=80))
    assert "\x1b" not in text
    # One that lost in all ways at once is longer, and can be pasted all the same.
    assert sum(len(line) > 80 for line in text.splitlines()) <= 1


class Screen(io.StringIO):
    """A terminal that keeps what is written."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "options", "proposes"),
    [(True, [], True), (False, [], False), (True, ["--comm", "x"], False)],
)
def test_only_who_names_nothing_at_a_terminal_gets_proposals(
    is_terminal: bool, options: list[str], proposes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_found(*_: object) -> None:
        raise NoInputError("no process is named ovs-vswitchd")

    screen = Screen(is_terminal)
    monkeypatch.setattr(target, "find_all_to_measure", none_found)
    monkeypatch.setattr("sys.stdout", screen)
    assert main(options) == os.EX_NOINPUT
    assert bool(screen.getvalue()) == proposes


def test_survey_ends_at_once_where_all_processes_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(losing, "process_ids", lambda known: iter(()))
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("it waited"))
    assert losing.losing_processes({1}).processes == ()


def test_processes_are_listed_without_those_known() -> None:
    assert os.getpid() in set(process_ids())
    assert os.getpid() not in set(process_ids({os.getpid()}))
