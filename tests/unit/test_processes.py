"""What a session knows of its processes: their titles."""

import pytest

from kernel_delay.capture import processes
from kernel_delay.capture.processes import Processes
from kernel_delay.host.target import ProcessTarget, Targets
from tests.unit.samples import timed_thread

SLEEPS = timed_thread(7, "nginx", blocked=100)
RUNS = timed_thread(7, "nginx", user=1, blocked=99)


@pytest.fixture
def titles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the process calls itself; each title once."""
    found: list[str] = []
    monkeypatch.setattr(processes, "command_line", lambda pid, most: (found.pop(0),))
    monkeypatch.setattr(processes, "named_cgroup_of", lambda pid: (None, None))
    return found


def test_title_is_read_again_when_the_process_has_run(titles: list[str]) -> None:
    titles += ["at the start", "in the first window", "since it ran"]
    known = Processes(Targets((ProcessTarget(7, "nginx", None, None),)))
    assert known.target(7, (SLEEPS,)).command_line == ("in the first window",)
    assert known.target(7, (SLEEPS,)).command_line == ("in the first window",)
    assert known.target(7, (RUNS,)).command_line == ("since it ran",)
    assert known.target(7, (SLEEPS,)).command_line == ("since it ran",)
