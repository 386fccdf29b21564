"""It opens a named pipe, and nobody is at the other end for most of the time."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.files import fifo
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.05


def writer(path: str) -> None:
    tell()
    while True:
        time.sleep(EVERY_S)
        os.close(os.open(path, os.O_WRONLY))


def victim(path: str) -> None:
    tell()
    while True:
        os.close(os.open(path, os.O_RDONLY))


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        fifo() as path,
        running(writer, path, name="writer") as other,
        running(victim, path) as process,
    ):
        yield Staged(process.pid, cause("wait_pipe", names=(other.pid,), also=("kernel_sleep",)))
