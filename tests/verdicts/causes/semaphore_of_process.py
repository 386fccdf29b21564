"""Another process has a semaphore that it shares with it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Lock

from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause

HELD_S, FREE_S = 0.02, 0.001


def holder(lock: Lock) -> None:
    call_thread("holder")
    while True:
        with lock:
            time.sleep(HELD_S)
        time.sleep(FREE_S)


def victim() -> None:
    fork = get_context("fork")
    lock = fork.Lock()
    process = fork.Process(target=holder, args=(lock,), daemon=True)
    process.start()
    tell(holder=process.pid)
    while True:
        with lock:
            pass


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, cause("wait_futex", names=(process.reported["holder"],)))
