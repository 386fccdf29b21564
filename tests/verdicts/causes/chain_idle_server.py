"""Redis waits for requests of a client that sleeps in between: nobody keeps it from work."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import ask_redis, redis
from tests.verdicts.staging import running
from tests.verdicts.truth import Staged, cause

EVERY_MS = 20


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        redis() as (process, path),
        running(ask_redis, path, "INCR counter", EVERY_MS, name="client") as client,
    ):
        truth = cause("idle_server", names=("waited for requests", client.pid))
        yield Staged(process.pid, truth, options=("--chains",))
