"""The owner of a mutex does not let go for longer than the window."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "mutex", "sleep", 60_000_000) as victim:
        owner = victim.reported["owner"]
        yield Staged(
            victim.pid,
            cause(
                "lock",
                names=("owner", owner),
            ),
        )
