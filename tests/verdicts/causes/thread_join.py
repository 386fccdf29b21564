"""It joins threads that compute."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause

COMPUTES_S = 0.03


def computes() -> None:
    import hashlib

    call_thread("computer")
    # Without the interpreter's lock.
    for _ in range(10):
        hashlib.sha256(bytes(1 << 22))


def victim() -> None:
    tell()
    while True:
        other = threading.Thread(target=computes)
        other.start()
        other.join()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(
            process.pid,
            cause("wait_futex", names=("of the same process",), also=("user_work", "kernel_work")),
        )
