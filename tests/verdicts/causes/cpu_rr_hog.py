"""A SCHED_RR process takes the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause

WITHIN = ("chrt", "--rr", "5")


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
                names=(other.pid, "SCHED_RR"),
                also=("user_work",),
                innocent=("kworker",),
            ),
        )
