"""Its cgroup's memory.high is so low that the kernel makes it sleep for what it takes beyond."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.cgroups import cgroup, join, unified
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

HIGH = 24 * 1024 * 1024
TAKEN = 64 * 1024 * 1024


def victim(group: str) -> None:
    # Pages are paid for by the cgroup that it is in when it touches them.
    join(Path(group), os.getpid())
    tell()
    while True:
        # Without swap there is nothing to reclaim of them: it is made to sleep.
        with mmap.mmap(-1, TAKEN) as pages:
            for at in range(0, TAKEN, mmap.PAGESIZE):
                pages[at] = 1


@contextmanager
def stage() -> Iterator[Staged]:
    root = unified()
    if "memory" not in (root / "cgroup.controllers").read_text().split():
        raise NotHereError("cgroup v2 has no controller of memory here")
    (root / "cgroup.subtree_control").write_text("+memory")
    with cgroup(root, memory__high=HIGH) as group, running(victim, group) as process:
        yield Staged(
            process.pid,
            cause(
                "wait_reclaim",
                names=("memory.high allows",),
                also=("page_faults", "doubtful_user", "kernel_work", "kernel_sleep"),
            ),
        )
