"""It wakes up a hundred times a second for a little work."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import HEALTHY, Staged

EVERY_S, WORKS_S = 0.01, 50e-6


def victim() -> None:
    tell()
    while True:
        spin(WORKS_S)
        os.getppid()
        time.sleep(EVERY_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, HEALTHY)
