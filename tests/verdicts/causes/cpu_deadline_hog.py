"""A SCHED_DEADLINE process has half of its CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause

# It may run anywhere: one that is pinned is refused (sched_setattr(2)).
DEADLINE = ("chrt", "--deadline", "--sched-runtime", "60000000", "--sched-deadline", "100000000",
            "--sched-period", "100000000", "0")  # fmt: skip


@contextmanager
def stage() -> Iterator[Staged]:
    import os
    from contextlib import ExitStack

    with ExitStack() as stack:
        victim = stack.enter_context(running(hog))
        for _ in os.sched_getaffinity(0):
            stack.enter_context(running(hog, name="hog", within=DEADLINE))
        truth = cause("cpu_contention", names=("hog (", "SCHED_DEADLINE"), also=("user_work",))
        yield Staged(victim.pid, truth)
