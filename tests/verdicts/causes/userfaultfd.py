"""A userfaultfd handler fills its pages slowly."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("answered", "userfaultfd", 20_000) as process:
        yield Staged(
            process.pid,
            cause("wait_userfaultfd", names=(process.reported["by"],), also=("page_faults",)),
        )
