"""Of two cgroups within one, the other weighs more; its own weight within its is of no account."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with ExitStack() as stack:
        pods = stack.enter_context(cgroup(controller("cpu")))
        others = stack.enter_context(cgroup(pods, "others", cpu__shares=4096))
        low = stack.enter_context(cgroup(pods, "low", cpu__shares=128))
        group = stack.enter_context(cgroup(low, cpu__shares=8192))
        for cpu in os.sched_getaffinity(0):
            join(others, stack.enter_context(running(hog, name="hog", cpu=cpu)).pid)
        victim = stack.enter_context(running(hog))
        join(group, victim.pid)
        names = ("hog (", "/low is 128", "/others 4096")
        yield Staged(victim.pid, cause("cpu_contention", names=names, also=("user_work",)))
