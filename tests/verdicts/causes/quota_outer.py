"""Two cgroups above it have a CPU quota; the outer one is used up by another process too."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    outer = {"cpu__cfs_quota_us": 40_000}
    inner = {"cpu__cfs_quota_us": 35_000}
    with (
        cgroup(controller("cpu"), **outer) as above,
        cgroup(above, "inner", **inner) as group,
        running(hog, name="other") as other,
        running(hog) as victim,
    ):
        join(above, other.pid)
        join(group, victim.pid)
        # The limit that counts is the outer one's, though the inner one is nearer.
        truth = cause("throttled", names=(above.name,), innocent=(f"{above.name}/inner",))
        yield Staged(victim.pid, truth, above)
