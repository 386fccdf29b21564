"""The netlink sockets of another process, and how much they may hold."""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

# include/uapi/asm-generic/unistd.h, 6.18: one number on every architecture.
SYS_PIDFD_GETFD = 438
NETLINK_GENERIC = 16
# The kernel doubles what it is given, and has a least of its own (socket(7)).
TINY = 1


@contextmanager
def tiny_receive_buffers(pid: int) -> Iterator[None]:
    """Let the process's generic netlink sockets hold next to nothing."""
    with ExitStack() as stack:
        for found in _netlink_sockets(pid, stack):
            before = found.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            # SO_RCVBUFFORCE, which is not bounded by net.core.rmem_max.
            stack.callback(found.setsockopt, socket.SOL_SOCKET, 33, before // 2)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TINY)
        yield


def _netlink_sockets(pid: int, stack: ExitStack) -> Iterator[socket.socket]:
    process = os.pidfd_open(pid)
    stack.callback(os.close, process)
    for name in os.listdir(f"/proc/{pid}/fd"):
        if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
            continue
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.syscall(ctypes.c_long(SYS_PIDFD_GETFD), process, int(name), 0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        found = stack.enter_context(socket.socket(fileno=fd))
        if found.family == socket.AF_NETLINK and found.proto == NETLINK_GENERIC:
            yield found
