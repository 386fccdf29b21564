"""Another process has the flock(2) of its file for longer than anyone looks."""

import fcntl
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from tests.verdicts.causes.file_lock_flock import victim
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause


def holder(path: str) -> None:
    with open(path, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        tell()
        signal.pause()


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        NamedTemporaryFile() as file,
        running(holder, file.name, name="holder") as other,
        running(victim, file.name) as process,
    ):
        yield Staged(process.pid, cause("wait_file_lock", names=("holder", other.pid)))
