"""Processes of the same program that are stopped: never those of another program."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kernel_delay.capture.chains import siblings
from kernel_delay.capture.chains.siblings import Siblings
from kernel_delay.host import held_processes as module
from kernel_delay.host.held_processes import Held, held, held_like
from kernel_delay.model import ChainThread

# Other tests stop a `sleep` too.
SLEEPS = ("sleep", str(600 + os.getpid()))


@pytest.fixture(autouse=True)
def time_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs of the machine may have thousands of processes."""
    monkeypatch.setattr(module, "MOST_CPU_S", 600.0)


@pytest.fixture
def start() -> Iterator[Callable[..., int]]:
    """Starts a command, which ends with the test."""
    with ExitStack() as stack:

        def begin(*command: str) -> int:
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(process.kill)
            return process.pid

        yield begin


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    # It is stopped when its parent is told so.
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def test_stopped_process_of_the_same_command_is_found(start: Callable[..., int]) -> None:
    own, other, running = start(*SLEEPS), start(*SLEEPS), start(*SLEEPS)
    assert not list(held_like([own]))
    stop(other)
    ((of, found, state),) = held_like([own])
    assert (of, found, state.state) == (own, other, "stopped")
    assert held(running) is None
    os.kill(other, signal.SIGCONT)


def test_other_script_of_an_interpreter_is_another_program(start: Callable[..., int]) -> None:
    code = "import time; time.sleep(600)"
    own = start(sys.executable, "-c", code)
    other = start(sys.executable, "-c", f"{code} # another")
    stop(other)
    assert not list(held_like([own]))


def test_same_program_needs_a_parent_or_cgroup_in_common() -> None:
    own = module._Program(1, "0::/\n", (1, 2), ("postgres: a waiting",))
    assert not module._is_same(own, own._replace(arguments=("postgres: b idle",)))
    unit = own._replace(cgroups="0::/system.slice/postgresql.service\n")
    assert module._is_same(unit, unit._replace(arguments=("postgres: b idle",)))
    assert not module._is_same(unit, unit._replace(arguments=("nginx: worker process",)))
    assert not module._is_same(unit, unit._replace(file=(1, 3)))
    child = own._replace(parent=77)
    assert module._is_same(child, child._replace(arguments=("postgres: b idle",)))


def test_held_since_it_was_first_seen_so(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {8: Held("stopped", 5), 9: Held("stopped", 7)}
    monkeypatch.setattr(siblings, "held_like", lambda pids: [(4, *each) for each in now.items()])
    monkeypatch.setattr(siblings, "held", now.get)
    monkeypatch.setattr(siblings, "name_of", lambda pid: "postgres")
    monkeypatch.setattr(siblings, "title_of", lambda pid: None)
    shell = ChainThread(3, 3, "bash")
    known = Siblings()
    known.look((4,), 100)
    # It ran, and was stopped again.
    now[9] = Held("stopped", 9)
    found = list(known.held(4, 200, 500, {8: shell}.get))
    assert [(each.pid, each.ns, each.by) for each in found] == [(8, 300, shell)]
    known.forget()
    known.look((4,), 600)
    found = list(known.held(4, 500, 900, {8: shell}.get))
    assert [(each.pid, each.ns, each.by) for each in found] == [(8, 400, shell), (9, 300, None)]
