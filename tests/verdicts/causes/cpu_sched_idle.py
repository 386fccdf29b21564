"""It is SCHED_IDLE beside a process that is not."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(hog, cpu=CPU, within=("chrt", "--idle", "0")) as victim,
        running(hog, name="hog", cpu=CPU) as other,
    ):
        yield Staged(
            victim.pid,
            cause("cpu_contention", names=(other.pid, "SCHED_IDLE"), also=("user_work",)),
        )
