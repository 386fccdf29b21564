"""A monitor reads /proc/PID/smaps of it all the time, which keeps it from its address space."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

MEMORY = 512 << 20


def victim() -> None:
    memory = mmap.mmap(-1, MEMORY)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, MEMORY, mmap.PAGESIZE):
        memory[at] = 1
    tell()
    while True:
        mmap.mmap(-1, mmap.PAGESIZE).close()


def monitor(pid: int) -> None:
    tell()
    while True:
        Path(f"/proc/{pid}/smaps").read_bytes()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process, running(monitor, process.pid, name="monitor") as other:
        truth = cause("wait_mmap_lock", names=(other.pid,), also=("kernel_work", "kernel_sleep"))
        yield Staged(process.pid, truth)
