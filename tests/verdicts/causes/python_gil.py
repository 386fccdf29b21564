"""Another thread of a Python program has the interpreter's lock."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import call_thread, running, spin, tell
from tests.verdicts.truth import Staged, cause


def computes() -> None:
    call_thread("computer")
    spin()


def victim() -> None:
    other = threading.Thread(target=computes)
    other.start()
    tell()
    spin()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        # Each of the two waits for the other.
        truth = cause("lock", "wait_futex", names=("(GIL)",), also=("user_work",))
        yield Staged(process.pid, truth)
