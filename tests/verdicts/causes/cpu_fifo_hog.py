"""A SCHED_FIFO process takes the CPU; its victim has what real-time throttling leaves."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause

WITHIN = ("chrt", "--fifo", "5")


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(hog, cpu=CPU) as victim,
        running(hog, name="hog", cpu=CPU, within=WITHIN) as other,
    ):
        yield Staged(
            victim.pid,
            cause(
                "cpu_contention",
                names=(other.pid, "SCHED_FIFO"),
                also=("user_work",),
                innocent=("kworker",),
            ),
        )
