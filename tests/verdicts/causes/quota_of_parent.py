"""The CPU quota of the cgroup above its own is a quarter of a CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, cpu_quota, join
from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with cpu_quota(25_000, 100_000) as above, cgroup(above) as group, running(hog) as victim:
        join(group, victim.pid)
        # The limit is where the quota is, not where the process is.
        yield Staged(
            victim.pid, cause("throttled", names=(above.name,), innocent=(f"{above.name}/",)), above
        )
