"""One of its threads changes its address space all the time, and another wants to look at it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "mincore") as process:
        yield Staged(
            process.pid,
            cause(
                "wait_mmap_lock",
                also=("kernel_work", "wait_kernel_lock", "kernel_sleep"),
            ),
        )
