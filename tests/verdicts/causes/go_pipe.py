"""A goroutine reads a slow pipe in a system call, with a lock that others want."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.causes.pipe_writer import writer
from tests.verdicts.files import fifo
from tests.verdicts.programs import go
from tests.verdicts.staging import running
from tests.verdicts.truth import Staged, cause

SOURCE = Path(__file__).parent / "blocked.go"


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        fifo() as path,
        running(writer, path, name="writer") as other,
        go(SOURCE, path) as process,
    ):
        yield Staged(process.pid, cause("wait_pipe", names=(other.pid,), also=("wait_futex",)))
