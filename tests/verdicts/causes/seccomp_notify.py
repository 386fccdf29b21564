"""A seccomp supervisor answers its calls slowly."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("answered", "seccomp", 20_000) as process:
        yield Staged(process.pid, cause("wait_seccomp", names=(process.reported["by"],)))
