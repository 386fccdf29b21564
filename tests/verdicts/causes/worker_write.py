"""One of its workers writes to a pipe that nobody reads; the main thread waits for it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause


def works(pipe: int) -> None:
    call_thread("worker")
    while True:
        os.write(pipe, bytes(4096))


def victim() -> None:
    _, writing = os.pipe()
    threading.Thread(target=works, args=(writing,), daemon=True).start()
    tell()
    while True:
        signal.pause()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, cause("wait_pipe", names=("worker", "write")))
