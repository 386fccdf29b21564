"""It makes much garbage, in cycles, and collects it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged


class Node:
    """One that is part of a cycle."""

    def __init__(self) -> None:
        self.self = self
        self.data = [0] * 10


def victim() -> None:
    tell()
    while True:
        for _ in range(1000):
            Node()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, HEALTHY)
