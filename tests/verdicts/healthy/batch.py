"""It computes all the time, as it is there for that."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import hog, running
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with running(hog) as process:
        yield Staged(process.pid, HEALTHY)
