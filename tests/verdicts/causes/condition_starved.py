"""Who is to signal a condition has no CPU, as another process uses that up."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running, workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(hog, name="hog", cpu=CPU, within=("chrt", "--fifo", "5")),
        workload("contended", "condition", "cpu", 20_000, CPU) as victim,
    ):
        names = ("owner", victim.reported["owner"], "had no CPU", "hog")
        truth = cause("wait_futex", "cpu_contention", names=names, also=("user_work",))
        yield Staged(victim.pid, truth)
