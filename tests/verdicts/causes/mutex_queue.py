"""Who has a mutex as it comes lets go at once; another thread, that was there, has it for long."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "queue", "sleep", 20_000) as victim:
        # That one computes while it has it.
        truth = cause("lock", names=("owner", victim.reported["owner"]), innocent=("its own code",))
        yield Staged(victim.pid, truth)
