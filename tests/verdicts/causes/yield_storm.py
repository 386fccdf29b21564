"""It yields its CPU all the time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause


def victim() -> None:
    tell()
    while True:
        os.sched_yield()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(
            process.pid,
            cause(
                "kernel_work",
                "cpu_contention",
                names=("sched_yield",),
                also=("user_work",),
            ),
        )
