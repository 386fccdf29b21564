"""It touches pages of a mapped file that are not in memory."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.files import BIG_FILE, big_file
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

PAGE = mmap.PAGESIZE


def victim(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    tell()
    while True:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file, BIG_FILE, prot=mmap.PROT_READ) as pages:
            pages.madvise(mmap.MADV_RANDOM)
            for offset in range(0, BIG_FILE, PAGE):
                pages[offset]


@contextmanager
def stage() -> Iterator[Staged]:
    with big_file() as path, running(victim, path) as process:
        yield Staged(
            process.pid,
            cause(
                "wait_page_cache", "wait_disk", also=("page_faults", "doubtful_user", "kernel_work")
            ),
        )
