"""Another process has the flock(2) of its file, again and again."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

HELD_S, FREE_S = 0.02, 0.001


def holder(path: str) -> None:
    with open(path, "r+") as file:
        tell()
        while True:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(HELD_S)
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(FREE_S)


def victim(path: str) -> None:
    with open(path, "r+") as file:
        tell()
        while True:
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        NamedTemporaryFile() as file,
        running(holder, file.name, name="holder") as other,
        running(victim, file.name) as process,
    ):
        yield Staged(process.pid, cause("wait_file_lock", names=(other.pid,)))
