"""A cgroup v1 freezer holds it half of the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import by_turns, cgroup, controller, hog, join, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with cgroup(controller("freezer")) as group, running(hog) as victim:
        join(group, victim.pid)
        state = group / "freezer.state"
        with by_turns(lambda: state.write_text("FROZEN"), lambda: state.write_text("THAWED"), 0.1):
            yield Staged(victim.pid, cause("frozen", also=("user_work",)))
