"""Somebody raises a System V semaphore late."""

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02
IPC_PRIVATE, IPC_RMID = 0, 0


class SemaphoreOperation(ctypes.Structure):
    """struct sembuf of semop(2)."""

    _fields_ = (
        ("number", ctypes.c_ushort),
        ("operation", ctypes.c_short),
        ("flags", ctypes.c_short),
    )


def change(semaphore: int, by: int) -> None:
    operation = SemaphoreOperation(0, by, 0)
    ctypes.CDLL(None).semop(semaphore, ctypes.byref(operation), 1)


def poster(semaphore: int) -> None:
    tell()
    while True:
        time.sleep(EVERY_S)
        change(semaphore, 1)


def victim(semaphore: int) -> None:
    tell()
    while True:
        change(semaphore, -1)


@contextmanager
def stage() -> Iterator[Staged]:
    libc = ctypes.CDLL(None)
    semaphore = libc.semget(IPC_PRIVATE, 1, 0o600)
    try:
        with (
            running(poster, semaphore, name="poster") as other,
            running(victim, semaphore) as process,
        ):
            yield Staged(process.pid, cause("wait_semaphore", names=(other.pid,)))
    finally:
        libc.semctl(semaphore, 0, IPC_RMID)
