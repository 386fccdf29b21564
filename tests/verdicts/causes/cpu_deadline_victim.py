"""It is SCHED_DEADLINE, and wants more than its runtime."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause

DEADLINE = ("chrt", "--deadline", "--sched-runtime", "30000000", "--sched-deadline", "100000000",
            "--sched-period", "100000000", "0")  # fmt: skip


@contextmanager
def stage() -> Iterator[Staged]:
    with running(hog, within=DEADLINE) as victim:
        # Whoever runs meanwhile has no part in it.
        names = ("SCHED_DEADLINE", "had used up its runtime")
        yield Staged(victim.pid, cause("cpu_contention", names=names))
