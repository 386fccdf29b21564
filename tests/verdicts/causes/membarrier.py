"""It has all CPUs pass a memory barrier, which takes an RCU grace period each time."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

# membarrier(2), asm/unistd.h
NUMBERS = {"x86_64": 324, "aarch64": 283}
MEMBARRIER_CMD_GLOBAL = 1


def victim() -> None:
    import os

    libc = ctypes.CDLL(None)
    number = NUMBERS[os.uname().machine]
    tell()
    while True:
        libc.syscall(number, MEMBARRIER_CMD_GLOBAL, 0, 0)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, cause("wait_rcu", also=("kernel_work",)))
