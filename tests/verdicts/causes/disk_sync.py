"""It writes and waits until the disk has it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.files import big_file
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause


def victim(path: str) -> None:
    file = os.open(path, os.O_WRONLY)
    tell()
    while True:
        os.pwrite(file, os.urandom(4096), 0)
        os.fsync(file)


@contextmanager
def stage() -> Iterator[Staged]:
    with big_file() as path, running(victim, path) as process:
        yield Staged(
            process.pid,
            cause(
                "wait_disk",
                "wait_page_cache",
                also=("kernel_sleep", "wait_kernel_lock", "kernel_work"),
            ),
        )
