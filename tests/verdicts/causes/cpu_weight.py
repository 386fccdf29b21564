"""Its cgroup weighs little beside processes that use all CPUs up."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with ExitStack() as stack:
        group = stack.enter_context(cgroup(controller("cpu"), cpu__shares=64))
        for cpu in os.sched_getaffinity(0):
            stack.enter_context(running(hog, name="hog", cpu=cpu))
        victim = stack.enter_context(running(hog))
        join(group, victim.pid)
        names = ("hog (", f"/{group.name} is 64")
        yield Staged(victim.pid, cause("cpu_contention", names=names, also=("user_work",)))
