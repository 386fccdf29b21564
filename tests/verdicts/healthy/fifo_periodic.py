"""A real-time thread that works a little each millisecond."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import HEALTHY, Staged

EVERY_S, WORKS_S = 0.001, 50e-6


def victim() -> None:
    tell()
    while True:
        spin(WORKS_S)
        time.sleep(EVERY_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim, within=("chrt", "--fifo", "5")) as process:
        yield Staged(process.pid, HEALTHY)
