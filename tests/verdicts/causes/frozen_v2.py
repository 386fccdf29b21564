"""A cgroup v2 is frozen half of the time, and it is within."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, join, unified
from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause
from tests.verdicts.turns import by_turns


@contextmanager
def stage() -> Iterator[Staged]:
    with cgroup(unified()) as group, running(hog) as victim:
        join(group, victim.pid)
        state = group / "cgroup.freeze"
        with by_turns(lambda: state.write_text("1"), lambda: state.write_text("0"), 0.1):
            yield Staged(victim.pid, cause("frozen", also=("user_work",)))
