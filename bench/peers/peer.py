"""What a peer is: something that can be attached to a process, and taken off again."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

_READY_S = 20.0
_STOP_S = 5.0
_POLL_S = 0.005


class PeerError(Exception):
    """A peer did not start, or did not get ready."""


class Peer(ABC):
    """One tool, with one set of options."""

    name: str

    @abstractmethod
    def lacking(self) -> str | None:
        """Say why it can't run here; None: it can, as far as is known without trying."""

    @abstractmethod
    def attached(self, pid: int) -> AbstractContextManager[None]:
        """Measure process `pid` within the `with`; raises PeerError where it does not start."""


class CommandPeer(Peer):
    """A peer that is a program to run."""

    # What it ends by at once: no report is waited for where the load is measured.
    stop_signal = signal.SIGKILL

    @abstractmethod
    def command(self, pid: int) -> list[str]:
        """Return the command line that measures process `pid` for a long time."""

    @abstractmethod
    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """Tell whether it measures by now; `said` is its output until now."""

    def environment(self) -> Mapping[str, str]:
        """Return what is set for it in the environment."""
        return {}

    @contextlib.contextmanager
    def attached(self, pid: int) -> Iterator[None]:
        """Run the command until the end of the `with`."""
        with tempfile.TemporaryFile() as output:
            process = self.start(pid, output)
            try:
                self.wait(process, output)
                yield
            finally:
                end(process, self.stop_signal)

    def start(self, pid: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the command; `output` gets all that it says."""
        return subprocess.Popen(
            self.command(pid),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.environment()},
        )

    def wait(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        """Return when it is ready; raises PeerError where it does not get so."""
        deadline = time.monotonic() + _READY_S
        while True:
            said = os.pread(output.fileno(), 65536, 0)
            if process.poll() is not None:
                raise PeerError(f"ended too early: {last_line(said)}")
            if self.ready(process, said):
                return
            if time.monotonic() > deadline:
                raise PeerError(f"not ready after {_READY_S:g} s: {last_line(said)}")
            time.sleep(_POLL_S)


class ReportingPeer(CommandPeer):
    """A peer that measures windows, and reports each as kernel_delay.py does."""

    @abstractmethod
    def window(self, pid: int, seconds: float) -> list[str]:
        """Return the command line that measures one window of process `pid`."""

    def command(self, pid: int) -> list[str]:
        """Measure for longer than any bench."""
        return self.window(pid, 600)


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """End the process by that signal, or by force if it does not listen."""
    with process:
        process.send_signal(number)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()


def in_system_call(pid: int, name: str) -> bool:
    """Tell whether the process's first thread sleeps in that system call (proc(5), syscall)."""
    from tests.system_calls import syscall_number

    with contextlib.suppress(OSError):
        number = Path(f"/proc/{pid}/syscall").read_text().split()[0]
        return number == str(syscall_number(name))
    return False


def last_line(said: bytes) -> str:
    """Return the last line that is not empty."""
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
