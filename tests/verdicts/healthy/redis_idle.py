"""A Redis that nobody asks."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import redis
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with redis() as (process, _):
        yield Staged(process.pid, HEALTHY)
