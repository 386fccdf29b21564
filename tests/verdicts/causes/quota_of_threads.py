"""Eight threads use up their CPU quota at once, and wait for the next period."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cpu_quota, join
from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with cpu_quota(50_000, 100_000) as group, workload("crowded", 8) as victim:
        join(group, victim.pid)
        yield Staged(victim.pid, cause("throttled", names=(group.name,)), group)
