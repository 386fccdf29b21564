"""It may use one CPU alone, which is busy, while another idles."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(hog, name="first", cpu=CPU) as first,
        running(hog, name="second", cpu=CPU),
        running(hog, cpu=CPU) as victim,
    ):
        yield Staged(
            victim.pid,
            cause("cpu_contention", names=(first.pid,), also=("user_work",), pinned=True),
        )
