"""A PostgreSQL that nobody asks."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.postgres import postgres
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with postgres() as (process, _):
        yield Staged(process.pid, HEALTHY)
