"""Its memory is swapped out, as its cgroup's limit leaves no room for it."""

import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

MEMORY, LIMIT, SWAP = 96 << 20, 48 << 20, 256 << 20


def victim(flags: int, group: str) -> None:
    # Pages are paid for by the cgroup that it is in when it touches them.
    join(Path(group), os.getpid())
    memory = mmap.mmap(-1, MEMORY, flags)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    tell()
    while True:
        for at in range(0, MEMORY, mmap.PAGESIZE):
            memory[at] = 1


@contextmanager
def swap() -> Iterator[None]:
    """A swap file of the stage's own."""
    with NamedTemporaryFile(dir="/var/tmp") as file:
        os.posix_fallocate(file.fileno(), 0, SWAP)
        for command in ("mkswap", "swapon"):
            if subprocess.run([command, file.name], capture_output=True, check=False).returncode:
                raise NotHereError(f"{command} is refused here")
        try:
            yield
        finally:
            subprocess.run(["swapoff", file.name], check=True)


@contextmanager
def stage() -> Iterator[Staged]:
    with swapped(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as staged:
        yield staged


@contextmanager
def swapped(flags: int) -> Iterator[Staged]:
    """A process whose memory is mapped with these flags (mmap(2))."""
    limit = {"memory__limit_in_bytes": LIMIT}
    with (
        swap(),
        cgroup(controller("memory"), **limit) as group,
        running(victim, flags, group) as process,
    ):
        yield Staged(
            process.pid,
            cause(
                "wait_swap",
                also=("page_faults", "doubtful_user", "wait_disk", "wait_reclaim"),
            ),
        )
