"""Its own threads share one CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("crowded", 4, cpu=CPU) as victim:
        yield Staged(
            victim.pid,
            cause("cpu_contention", names=("of the same process",), also=("user_work",)),
        )
