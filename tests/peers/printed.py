"""A command of ours that prints text, in the background."""

import signal
import time
from pathlib import Path
from typing import Self

from bench.peers.peer import in_system_call
from tests import commands

# Emulated machines are slow.
HANGS_S = 100.0


class Printed:
    """While it is open the command runs; `output` is what it printed by the end."""

    def __init__(self, folder: Path, *command: object) -> None:
        """Takes note; __enter__ starts it."""
        self._command = command
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"

    def __enter__(self) -> Self:
        """Returns when it is attached: it waits for what comes, then."""
        with open(self._stdout, "w") as stdout, open(self._stderr, "w") as stderr:
            self._process = commands.start(
                *self._command, stdout=stdout.fileno(), stderr=stderr.fileno()
            )
        deadline = time.monotonic() + HANGS_S
        while not any(in_system_call(self._process.pid, name) for name in ("poll", "ppoll")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self._command} did not start: {self._stderr.read_text()}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it by Ctrl-C."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(HANGS_S) == 0, self._stderr.read_text()

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._stdout.read_text()
