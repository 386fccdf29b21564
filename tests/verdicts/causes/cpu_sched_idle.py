"""It is SCHED_IDLE beside processes that are not."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with ExitStack() as stack:
        victim = stack.enter_context(running(hog))
        # Not before: beside the others it would hardly get started.
        os.sched_setscheduler(victim.pid, os.SCHED_IDLE, os.sched_param(0))
        # One on each CPU: nowhere is there more for it.
        for cpu in os.sched_getaffinity(0):
            stack.enter_context(running(hog, name="hog", cpu=cpu))
        truth = cause("cpu_contention", names=("hog (", "SCHED_IDLE"), also=("user_work",))
        yield Staged(victim.pid, truth)
