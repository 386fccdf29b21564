"""Captures with triggers: in this process, and as a user runs them."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from kernel_delay.capture.plan import TriggerPoints, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.probes.resolve import resolve
from kernel_delay.probes.triggers import parse_trigger
from tests import commands
from tests.system_calls import syscall_number
from tests.workload import HANGS_S, wait_until

# The command waits for a hit in poll(2), which some architectures have as
# ppoll(2) only; before, it polls nothing.
HANGS_NS = int(HANGS_S * 1e9)
WAITS = {str(syscall_number(name)) for name in ("poll", "ppoll")}


def trigger(text: str, pid: int) -> TriggerPoints:
    """The trigger that a user writes so, found in the process."""
    return TriggerPoints(text=text, points=resolve(parse_trigger(text), pid))


def session(
    pid: int,
    plan: WindowPlan,
    tell: Callable[[str], None] = print,
    options: SessionOptions = SessionOptions(),  # noqa: B008 - it is frozen
) -> Session:
    """A capture in this process; once it is entered the triggers are there."""
    return Session(find_target(pid), plan, options, tell)


class Command:
    """A running `kernel-delay`, with its output in files that no one need read meanwhile."""

    def __init__(self, directory: Path, *arguments: object) -> None:
        """Start it."""
        self._stdout = directory / "stdout"
        self._stderr = directory / "stderr"
        with open(self._stdout, "wb") as stdout, open(self._stderr, "wb") as stderr:
            self._process = commands.start(
                *arguments, stdout=stdout.fileno(), stderr=stderr.fileno()
            )
        self.pid = self._process.pid

    def wait_until_waiting(self) -> None:
        """Wait until it waits for a hit: the triggers are there."""
        wait_until(self._is_waiting)

    def _is_waiting(self) -> bool:
        if self._process.poll() is not None:
            pytest.fail(f"kernel-delay exited: {self.stderr}")
        try:
            return Path(f"/proc/{self.pid}/syscall").read_text().split()[0] in WAITS
        except OSError:  # it exits just now
            return False

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.kill(self.pid, signal.SIGINT)

    def end(self) -> int:
        """Wait until it has ended; its exit status."""
        return self._process.wait(HANGS_S)

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()

    @property
    def stdout(self) -> str:
        """What it printed until now."""
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        """What it told until now."""
        return self._stderr.read_text()

    def json(self) -> list[Any]:
        """What it printed with --json: an object a sample."""
        return [json.loads(line) for line in self.stdout.splitlines()]


class StartCommand(Protocol):
    """The fixture `start_command`."""

    def __call__(self, *arguments: object) -> Command: ...
