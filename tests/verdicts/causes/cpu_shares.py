"""Its cgroup has little weight, and another process uses its CPU up."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        cgroup(controller("cpu"), cpu__shares=64) as group,
        running(hog, name="hog", cpu=CPU) as other,
        running(hog, cpu=CPU) as victim,
    ):
        join(group, victim.pid)
        truth = cause("cpu_contention", names=("hog", other.pid), also=("user_work",), pinned=True)
        yield Staged(victim.pid, truth)
