"""It computes for a fifth of the time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import HEALTHY, Staged

COMPUTES_S, SLEEPS_S = 0.002, 0.008


def victim() -> None:
    tell()
    while True:
        spin(COMPUTES_S)
        time.sleep(SLEEPS_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, HEALTHY)
