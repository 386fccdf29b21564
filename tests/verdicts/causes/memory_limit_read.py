"""The memory limit of its cgroup leaves no room for the file that it reads again and again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.files import BIG_FILE, big_file
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

LIMIT = BIG_FILE // 4
BLOCK = 256 * 1024


def victim(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    tell()
    while True:
        for at in range(0, BIG_FILE, BLOCK):
            os.pread(file, BLOCK, at)


@contextmanager
def stage() -> Iterator[Staged]:
    limit = {"memory__limit_in_bytes": LIMIT}
    with (
        cgroup(controller("memory"), **limit) as group,
        big_file() as path,
        running(victim, path) as process,
    ):
        # What is cached already is paid for by another cgroup.
        file = os.open(path, os.O_RDONLY)
        join(group, process.pid)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        yield Staged(
            process.pid,
            cause(
                "kernel_work",
                "wait_page_cache",
                "wait_disk",
                "wait_reclaim",
                names=("limit of memory", group.name),
            ),
        )
