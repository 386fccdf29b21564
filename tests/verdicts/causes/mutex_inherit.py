"""The owner of a mutex with priority inheritance sleeps."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "inherit", "sleep", 20_000) as victim:
        owner = victim.reported["owner"]
        yield Staged(
            victim.pid,
            cause(
                "lock",
                "wait_futex",
                names=("owner", owner),
            ),
        )
