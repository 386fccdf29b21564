"""Two of its threads wait for each other's mutex."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "deadlock", "sleep", 20_000) as victim:
        names = ("owner", victim.reported["owner"], "a deadlock")
        yield Staged(victim.pid, cause("lock", names=names))
