"""A command that writes a line of JSON for each thing it sees, in the background."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import msgspec

from tests import commands

# Emulated machines are slow.
HANGS_S = 100.0

_T = TypeVar("_T")


class JsonFollower(Generic[_T]):
    """While it is open the command runs; what it has written is read meanwhile."""

    def __init__(self, folder: Path, kind: type[_T], *command: object) -> None:
        """Takes note; __enter__ starts it. Its lines are of this `kind`."""
        self._command = command
        self._decoder: msgspec.json.Decoder[_T] = msgspec.json.Decoder(kind)
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"

    def __enter__(self) -> Self:
        """Returns once it says that it has begun."""
        with open(self._stdout, "w") as stdout, open(self._stderr, "w") as stderr:
            self._process = commands.start(
                *self._command, "--json", stdout=stdout.fileno(), stderr=stderr.fileno()
            )
        self._wait(lambda: "Ctrl-C ends it" in self._stderr.read_text())
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it by Ctrl-C."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(HANGS_S) == 0, self._stderr.read_text()

    def seen(self) -> list[_T]:
        """What it has written."""
        lines = self._stdout.read_bytes().splitlines(keepends=True)
        return [self._decoder.decode(line) for line in lines if line.endswith(b"\n")]

    def until(self, enough: Callable[[list[_T]], Any], begun: int = 0) -> list[_T]:
        """What it has written from the `begun`th on, once that is enough."""
        self._wait(lambda: enough(self.seen()[begun:]))
        return self.seen()[begun:]

    def _wait(self, come: Callable[[], Any]) -> None:
        deadline = time.monotonic() + HANGS_S
        while not come():
            assert self._process.poll() is None, self._stderr.read_text()
            assert time.monotonic() < deadline, self.seen()[-3:]
            time.sleep(0.02)
