"""It reads a file that is not in the page cache."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.files import BIG_FILE, big_file
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

BLOCK = 64 * 1024


def victim(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    tell()
    while True:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        for offset in range(0, BIG_FILE, BLOCK):
            os.pread(file, BLOCK, offset)


@contextmanager
def stage() -> Iterator[Staged]:
    with big_file() as path, running(victim, path) as process:
        yield Staged(
            process.pid, cause("wait_page_cache", "wait_disk", also=("kernel_sleep", "kernel_work"))
        )
