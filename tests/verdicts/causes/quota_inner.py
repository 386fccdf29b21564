"""Two cgroups above it have a CPU quota, and the inner one is used up."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    outer = {"cpu__cfs_quota_us": 80_000}
    inner = {"cpu__cfs_quota_us": 20_000}
    with (
        cgroup(controller("cpu"), **outer) as above,
        cgroup(above, "inner", **inner) as group,
        running(hog) as victim,
    ):
        join(group, victim.pid)
        yield Staged(victim.pid, cause("throttled", names=(f"{above.name}/inner",)), group)
