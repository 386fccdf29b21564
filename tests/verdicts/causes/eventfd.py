"""It waits for an eventfd that another process counts up."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02


def victim() -> None:
    fd = os.eventfd(0)
    counter = os.fork()
    if not counter:
        call_thread("counter")
        while True:
            time.sleep(EVERY_S)
            os.eventfd_write(fd, 1)
    tell(by=counter)
    while True:
        os.eventfd_read(fd)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, cause("wait_eventfd", names=(process.reported["by"],)))
