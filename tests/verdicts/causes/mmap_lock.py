"""Its threads map and fault all the time, and wait for their address space's lock."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "crowd") as process:
        yield Staged(
            process.pid,
            cause(
                "wait_mmap_lock",
                also=("kernel_work", "page_faults", "doubtful_user", "kernel_sleep"),
            ),
        )
