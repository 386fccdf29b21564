"""It writes a line a second."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged

EVERY_S = 1.0


def victim(path: str) -> None:
    with open(path, "a") as file:
        tell()
        while True:
            file.write("all is well\n")
            file.flush()
            time.sleep(EVERY_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with NamedTemporaryFile() as file, running(victim, file.name) as process:
        yield Staged(process.pid, HEALTHY)
