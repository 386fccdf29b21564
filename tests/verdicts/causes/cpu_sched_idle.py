"""It is SCHED_IDLE beside processes that are not."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause

WITHIN = ("chrt", "--idle", "0")


@contextmanager
def stage() -> Iterator[Staged]:
    with ExitStack() as stack:
        # One on each CPU: nowhere is there more for it.
        for cpu in os.sched_getaffinity(0):
            stack.enter_context(running(hog, name="hog", cpu=cpu))
        victim = stack.enter_context(running(hog, within=WITHIN))
        truth = cause("cpu_contention", names=("hog (", "SCHED_IDLE"), also=("user_work",))
        yield Staged(victim.pid, truth)
