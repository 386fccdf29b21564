"""It reads from a pipe whose writer somebody stops for most of the time."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.files import fifo
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause
from tests.verdicts.turns import by_turns

EVERY_S = 0.01


def writer(path: str) -> None:
    tell()
    pipe = os.open(path, os.O_WRONLY)
    while True:
        time.sleep(EVERY_S)
        os.write(pipe, b"x")


def victim(path: str) -> None:
    tell()
    pipe = os.open(path, os.O_RDONLY)
    while True:
        os.read(pipe, 1)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        fifo() as path,
        running(writer, path, name="writer") as other,
        running(victim, path) as process,
    ):

        def stop() -> None:
            os.kill(other.pid, signal.SIGSTOP)

        def go_on() -> None:
            os.kill(other.pid, signal.SIGCONT)

        with by_turns(stop, go_on, 0.2):
            yield Staged(process.pid, cause("wait_pipe", names=(other.pid,)))
