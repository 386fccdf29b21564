"""The owner of a mutex waits for a CPU while it holds it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running, workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(hog, name="hog", cpu=CPU),
        workload("contended", "mutex", "cpu", 20_000, CPU) as victim,
    ):
        owner = victim.reported["owner"]
        yield Staged(
            victim.pid,
            cause(
                "lock",
                names=("owner", owner, "had no CPU", "hog"),
                also=("user_work",),
            ),
        )
