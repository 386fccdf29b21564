"""Somebody writes under a pthread_rwlock for long, and it wants to read."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "rwlock", "spin", 20_000) as victim:
        owner = victim.reported["owner"]
        yield Staged(
            victim.pid,
            cause(
                "lock",
                "wait_futex",
                names=("owner", owner),
                also=("user_work",),
                acquits=True,
            ),
        )
