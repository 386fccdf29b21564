"""Who writes under a pthread_rwlock sleeps meanwhile, and it wants to read."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "rwlock", "sleep", 20_000) as victim:
        names = ("owner", victim.reported["owner"], "nanosleep")
        yield Staged(victim.pid, cause("lock", "wait_futex", names=names))
