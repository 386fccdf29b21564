"""It receives from a POSIX message queue that another process seldom sends to."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.posix_queues import open_queue, receive, send
from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02


def victim() -> None:
    try:
        queue = open_queue(f"/verdict-{os.getpid()}")
    except OSError as error:
        tell(refused=f"no message queues here: {error.strerror}")
        return
    sender = os.fork()
    if not sender:
        call_thread("sender")
        while True:
            time.sleep(EVERY_S)
            send(queue)
    tell(by=sender)
    while True:
        receive(queue)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, cause("wait_semaphore", names=(process.reported["by"],)))
