"""It writes to a pseudo-terminal that nobody reads: a signal stopped the process that has it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

LINE = b"line\n"


def emulator() -> None:
    pid, _ = os.forkpty()
    while not pid:
        os.write(1, LINE)
    tell(program=pid)
    signal.pause()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(emulator, name="emulator") as process:
        os.kill(process.pid, signal.SIGSTOP)
        names = (process.pid, "the pseudo-terminal to", "was stopped")
        yield Staged(process.reported["program"], cause("wait_terminal", names=names))
