"""POSIX message queues, which Python does not know: mq_overview(7)."""

import ctypes
import errno
import os

import pytest

# Of a queue that is made without attributes.
MESSAGE_SIZE = 8192

_LIBC = ctypes.CDLL(None, use_errno=True)


def open_queue(name: str) -> int:
    """Open a new queue, which has its name no more; OSError where the kernel has none."""
    queue = int(_LIBC.mq_open(name.encode(), os.O_RDWR | os.O_CREAT, 0o600, None))
    if queue < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    _LIBC.mq_unlink(name.encode())
    return queue


def new_queue(name: str) -> int:
    """As open_queue(); skips where the kernel has none."""
    try:
        return open_queue(name)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        pytest.skip("this kernel has no POSIX queues (CONFIG_POSIX_MQUEUE)")


def send(queue: int) -> None:
    """Send one byte, once there is room."""
    _LIBC.mq_send(queue, b"x", 1, 0)


def receive(queue: int) -> None:
    """Wait for a message."""
    _LIBC.mq_receive(queue, ctypes.create_string_buffer(MESSAGE_SIZE), MESSAGE_SIZE, None)
