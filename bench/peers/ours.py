"""kernel-delay itself, as installed next to this Python."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.peers.peer import CommandPeer, ReportingPeer, in_system_call

TOOL = Path(sys.executable).with_name("kernel-delay")


class Ours(ReportingPeer):
    """A capture, with options."""

    def __init__(self, *options: str, tool: Path = TOOL) -> None:
        """Take note of the options, and of another build's program."""
        name = "kernel-delay" if tool == TOOL else str(tool)
        self.name = " ".join([name, *options])
        self._options = options
        self._tool = tool

    def lacking(self) -> str | None:
        """Nothing: the bench can't be started without."""
        return None

    def window(self, pid: int, seconds: float) -> list[str]:
        """See `kernel-delay capture --help`."""
        return [str(self._tool), "--pid", str(pid), "--sample-time", str(seconds), *self._options]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It sleeps in poll(2) or ppoll(2) only when the window is set."""
        return _polls(process.pid)


class OursAmong(Ours):
    """A capture of so many processes, of which all but one sleep."""

    def __init__(self, processes: int) -> None:
        """Take note of how many."""
        super().__init__()
        self.name = f"kernel-delay, {processes} processes"
        self._others = processes - 1
        self._pids: list[int] = []

    @contextlib.contextmanager
    def attached(self, pid: int) -> Iterator[None]:
        """Run the others too until the end of the `with`."""
        sleepers = [subprocess.Popen(["sleep", "infinity"]) for _ in range(self._others)]
        self._pids = [sleeper.pid for sleeper in sleepers]
        try:
            with super().attached(pid):
                yield
        finally:
            for sleeper in sleepers:
                sleeper.kill()
                sleeper.wait()

    def window(self, pid: int, seconds: float) -> list[str]:
        """See `kernel-delay capture --help`."""
        others = [word for other in self._pids for word in ("--pid", str(other))]
        return [*super().window(pid, seconds), *others]


class OurCommand(CommandPeer):
    """Another of its commands, until it is ended."""

    def __init__(self, command: str, *options: str) -> None:
        """Take note."""
        # To be quiet measures nothing else.
        self.name = " ".join(["kernel-delay", command, *(o for o in options if o != "-q")])
        self._arguments = (command, *options)

    def lacking(self) -> str | None:
        """Nothing, as far as is known without trying."""
        return None

    def command(self, pid: int) -> list[str]:
        """See `kernel-delay COMMAND --help`."""
        command, *options = self._arguments
        return [str(TOOL), command, "--pid", str(pid), *options]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It waits for events, then."""
        return _polls(process.pid)


def _polls(pid: int) -> bool:
    return any(in_system_call(pid, name) for name in ("poll", "ppoll", "epoll_wait"))
