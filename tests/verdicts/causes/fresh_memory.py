"""It touches memory that it gave back, again and again."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "fresh") as process:
        yield Staged(
            process.pid,
            cause("page_faults", "doubtful_user", names=("page faults",), also=("kernel_work",)),
        )
