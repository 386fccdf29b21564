"""A cgroup v1 freezer holds it half of the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause
from tests.verdicts.turns import by_turns


@contextmanager
def stage() -> Iterator[Staged]:
    with cgroup(controller("freezer")) as group, running(hog) as victim:
        join(group, victim.pid)
        state = group / "freezer.state"
        with by_turns(lambda: state.write_text("FROZEN"), lambda: state.write_text("THAWED"), 0.1):
            yield Staged(victim.pid, cause("frozen", also=("user_work",)))
