"""It maps, touches and unmaps memory all the time."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("kernel_work", "maps") as process:
        yield Staged(
            process.pid, cause("kernel_work", "page_faults", "doubtful_user", also=("kernel_work",))
        )
