"""A Redis that answers a few hundred requests a second."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import ask_redis, redis
from tests.verdicts.staging import running
from tests.verdicts.truth import HEALTHY, Staged

EVERY_MS = 3


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        redis() as (process, path),
        running(ask_redis, path, "INCR counter", EVERY_MS, name="client"),
    ):
        yield Staged(process.pid, HEALTHY)
