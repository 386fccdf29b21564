"""It reads past the page cache: the disk's time is its own."""

import mmap
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.files import BIG_FILE, big_file
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

BLOCK = 64 * 1024


def victim(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    block = mmap.mmap(-1, BLOCK)
    tell()
    while True:
        os.preadv(file, [block], random.randrange(BIG_FILE // BLOCK) * BLOCK)


@contextmanager
def stage() -> Iterator[Staged]:
    with big_file() as path, running(victim, path) as process:
        yield Staged(
            process.pid, cause("wait_disk", also=("kernel_sleep", "wait_page_cache", "kernel_work"))
        )
