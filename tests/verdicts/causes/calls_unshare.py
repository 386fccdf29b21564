"""A new namespace of mounts and of System V IPC again and again: work and waits in one call."""

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import Staged, cause

# include/uapi/linux/sched.h
CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000

# Of the time that the call took: that is much on one kernel, and little on another.
OWN_CODE = 0.1


def victim() -> None:
    unshare = ctypes.CDLL(None).unshare
    if unshare(CLONE_NEWNS | CLONE_NEWIPC):
        tell(refused="no rights to unshare(2)")
        return
    tell()
    while True:
        began = time.monotonic()
        unshare(CLONE_NEWNS | CLONE_NEWIPC)
        spin(OWN_CODE * (time.monotonic() - began))


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(
            process.pid,
            cause(
                "long_call",
                "kernel_work",
                "wait_rcu",
                "wait_kernel_lock",
                "kernel_sleep",
                names=("unshare",),
                also=("user_work",),
            ),
        )
