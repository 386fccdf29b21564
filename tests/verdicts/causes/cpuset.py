"""Its cpuset has one CPU, and another process uses that up."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    root = controller("cpuset")
    memory = (root / "cpuset.mems").read_text().strip()
    with (
        cgroup(root, cpuset__mems=memory, cpuset__cpus=CPU) as group,
        running(hog, name="hog", cpu=CPU) as other,
        running(hog) as victim,
    ):
        join(group, victim.pid)
        truth = cause("cpu_contention", names=("hog", other.pid), also=("user_work",), pinned=True)
        yield Staged(victim.pid, truth)
