"""It receives from a POSIX message queue that another process seldom sends to."""

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02

# mq_overview(7): of a queue that is made without attributes.
MESSAGE_SIZE = 8192


def victim() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    name = f"/verdict-{os.getpid()}".encode()
    queue = libc.mq_open(name, os.O_RDWR | os.O_CREAT, 0o600, None)
    if queue < 0:
        tell(refused=f"no message queues here: {os.strerror(ctypes.get_errno())}")
        return
    libc.mq_unlink(name)
    sender = os.fork()
    if not sender:
        call_thread("sender")
        while True:
            time.sleep(EVERY_S)
            libc.mq_send(queue, b"x", 1, 0)
    tell(by=sender)
    message = ctypes.create_string_buffer(MESSAGE_SIZE)
    while True:
        libc.mq_receive(queue, message, MESSAGE_SIZE, None)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, cause("wait_semaphore", names=(process.reported["by"],)))
