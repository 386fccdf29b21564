"""It is nice to a process that is not."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(hog, cpu=CPU, within=("nice", "-n", "19")) as victim,
        running(hog, name="hog", cpu=CPU) as other,
    ):
        yield Staged(
            victim.pid, cause("cpu_contention", names=(other.pid, "nice"), also=("user_work",))
        )
