"""It makes a tiny system call by the million."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "getppid") as process:
        yield Staged(
            process.pid, cause("kernel_work", names=("getppid", "a second"), also=("user_work",))
        )
