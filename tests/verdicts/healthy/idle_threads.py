"""A hundred threads that sleep."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("idle_threads", "sleep", 100) as process:
        yield Staged(process.pid, HEALTHY)
