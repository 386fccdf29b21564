"""It reads a pipe whose writer is slow."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.files import fifo
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02
SIZE = 64 * 1024


def victim(path: str) -> None:
    pipe = os.open(path, os.O_RDWR)
    tell()
    while True:
        os.read(pipe, SIZE)


def writer(path: str) -> None:
    pipe = os.open(path, os.O_RDWR)
    tell()
    while True:
        time.sleep(EVERY_S)
        os.write(pipe, b"x")


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        fifo() as path,
        running(writer, path, name="writer") as other,
        running(victim, path) as process,
    ):
        yield Staged(process.pid, cause("wait_pipe", names=(other.pid,)))
