"""A filter, as cat(1), that waits for input."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.files import fifo
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged


def victim(path: str) -> None:
    with open(path, "rb+", buffering=0) as pipe:
        tell()
        pipe.read(1)


@contextmanager
def stage() -> Iterator[Staged]:
    with fifo() as path, running(victim, path, name="filter") as process:
        yield Staged(process.pid, HEALTHY)
