"""The memory limit of its cgroup leaves no room for the file that it has mapped."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.files import BIG_FILE, big_file
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

LIMIT = BIG_FILE // 4


def victim(path: str, group: str) -> None:
    # Pages are paid for by who reads them first: it joins before, and none is there.
    join(Path(group), os.getpid())
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    pages = mmap.mmap(file, BIG_FILE, prot=mmap.PROT_READ)
    tell()
    while True:
        for at in range(0, BIG_FILE, mmap.PAGESIZE):
            pages[at]


@contextmanager
def stage() -> Iterator[Staged]:
    limit = {"memory__limit_in_bytes": LIMIT}
    with (
        cgroup(controller("memory"), **limit) as group,
        big_file() as path,
        running(victim, path, group) as process,
    ):
        yield Staged(
            process.pid,
            cause(
                "page_faults",
                "doubtful_user",
                "wait_page_cache",
                "wait_disk",
                "wait_reclaim",
                names=("limit of memory", group.name),
            ),
        )
