"""It sleeps."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import LIFE_S, running, tell
from tests.verdicts.truth import HEALTHY, Staged


def victim() -> None:
    tell()
    time.sleep(LIFE_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, HEALTHY)
