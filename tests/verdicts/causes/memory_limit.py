"""The memory limit of its cgroup is so low that the kernel frees what it reads at once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.files import BIG_FILE, big_file
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

LIMIT = 12 * 1024 * 1024
BLOCK = 1024 * 1024


def victim(path: str) -> None:
    file = os.open(path, os.O_RDWR)
    block = bytes(BLOCK)
    tell()
    while True:
        for offset in range(0, BIG_FILE, BLOCK):
            os.pwrite(file, block, offset)


@contextmanager
def stage() -> Iterator[Staged]:
    limit = {"memory__limit_in_bytes": LIMIT}
    with (
        big_file() as path,
        cgroup(controller("memory"), **limit) as group,
        running(victim, path) as process,
    ):
        join(group, process.pid)
        yield Staged(
            process.pid,
            cause(
                "wait_reclaim",
                also=("wait_page_cache", "wait_disk", "kernel_work", "kernel_sleep"),
            ),
        )
