"""It reads from a terminal that another process seldom types to."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02


def victim() -> None:
    master, slave = os.openpty()
    typist = os.fork()
    if not typist:
        call_thread("typist")
        while True:
            time.sleep(EVERY_S)
            os.write(master, b"a line\n")
            # What is echoed would fill it up.
            os.read(master, 4096)
    tell()
    while True:
        os.read(slave, 4096)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        # A kernel worker hands over what was typed (drivers/tty/tty_buffer.c): it is the waker.
        yield Staged(process.pid, cause("wait_terminal"))
