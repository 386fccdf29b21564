"""It polls nothing, every 100 ms."""

import select
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged

EVERY_MS = 100


def victim() -> None:
    poll = select.poll()
    tell()
    while True:
        poll.poll(EVERY_MS)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, HEALTHY)
