"""Its cgroup is idle (cpu.idle), and a process of another uses its CPU up."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import NotHereError, Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    cpu = controller("cpu")
    with (
        cgroup(cpu) as group,
        running(hog, name="hog", cpu=CPU) as other,
        running(hog, cpu=CPU) as victim,
    ):
        idle = group / "cpu.idle"
        if not idle.exists():
            raise NotHereError("no cpu.idle here")
        idle.write_text("1")
        join(group, victim.pid)
        names = ("hog", other.pid, "(cpu.idle)")
        # What it may wait for is far longer than a window: the one beside it wants all.
        truth = cause("cpu_contention", names=names, innocent=("cpu.shares",), pinned=True)
        yield Staged(victim.pid, truth)
