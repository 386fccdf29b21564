"""The owner of a mutex waits for a pipe while it holds it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "mutex", "pipe", 20_000) as victim:
        owner = victim.reported["owner"]
        yield Staged(
            victim.pid,
            cause(
                "lock",
                names=("owner", owner, "pipe"),
            ),
        )
