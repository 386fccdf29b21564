"""The owner of a mutex waits for another mutex, whose owner sleeps."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "chain", "sleep", 20_000) as victim:
        owner = victim.reported["owner"]
        yield Staged(
            victim.pid,
            cause(
                "lock",
                names=("middle", "owner", owner),
            ),
        )
