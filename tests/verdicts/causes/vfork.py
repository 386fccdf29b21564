"""Its child takes long to run its program; it waits as vfork(2) has it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "vfork") as process:
        yield Staged(process.pid, cause("wait_vfork", also=("kernel_sleep", "wait_child")))
