"""Another process wants the same CPU, at the same priority."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with running(hog, name="hog", cpu=CPU) as other, running(hog, cpu=CPU) as victim:
        yield Staged(
            victim.pid,
            cause("cpu_contention", names=(other.pid,), also=("user_work",), pinned=True),
        )
