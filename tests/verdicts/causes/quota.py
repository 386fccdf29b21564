"""The CPU quota of its cgroup is a quarter of a CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cpu_quota, join
from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with cpu_quota(25_000, 100_000) as group, running(hog) as victim:
        join(group, victim.pid)
        yield Staged(victim.pid, cause("throttled", names=(group.name,)), group)
