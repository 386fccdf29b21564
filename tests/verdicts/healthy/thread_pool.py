"""Eight workers wait for a condition, as nobody has work for them."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("idle_threads", "pool", 8) as process:
        yield Staged(process.pid, HEALTHY)
