"""A PMD thread of Open vSwitch that polls by calls, and yields."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("idle_threads", "pmd-calls", 1) as process:
        yield Staged(process.pid, HEALTHY)
