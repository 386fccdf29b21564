"""Another thread of a Python program seldom puts something into its queue, and sleeps else."""

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause

ITEMS: "queue.Queue[int]" = queue.Queue()


def puts() -> None:
    call_thread("feeder")
    while True:
        time.sleep(0.003)
        ITEMS.put(1)


def victim() -> None:
    other = threading.Thread(target=puts)
    other.start()
    tell()
    while True:
        ITEMS.get()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        # Nobody has the interpreter's lock for long.
        yield Staged(process.pid, cause("wait_futex", names=("feeder",), innocent=("GIL",)))
