"""It starts and joins threads all the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "threads") as process:
        yield Staged(
            process.pid,
            cause(
                "kernel_work",
                also=(
                    "kernel_sleep",
                    "wait_futex",
                    "page_faults",
                    "doubtful_user",
                    "wait_mmap_lock",
                    # RCU frees what ended threads leave.
                    "interrupt_load",
                ),
            ),
        )
