"""The process that copies files which processes supply: file_copies.py runs it, and asks it."""

import os
import socket

from kernel_delay.host.abandonable import begin
from kernel_delay.host.file_copies import COPIED, GOES_ON, NONE, REQUEST, STATUS, TOO_LARGE
from kernel_delay.host.stored_files import find_below, open_found

_CALLS = (
    *("recvfrom", "recvmsg", "sendto", "sendmsg", "open", "openat", "openat2", "fcntl", "ioctl"),
    *("fstatfs", "ftruncate", "pread64", "pwrite64"),
)

# Files of other users, as the tool itself may read them.
_CAPABILITIES = ("CAP_DAC_READ_SEARCH",)

_BLOCK = 1 << 20


def main() -> None:
    """Answer each request, until the process at the other end is gone."""
    asked = begin(_CALLS, _CAPABILITIES)
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, REQUEST.size, 2)
        if len(request) < REQUEST.size or len(descriptors) < 2:
            return
        found, copy = descriptors
        most, length = REQUEST.unpack(request)
        path = asked.recv(length, socket.MSG_WAITALL) if length else b""
        try:
            _answer(asked, found, path, copy, most)
        except OSError:
            asked.sendall(NONE)
        os.close(found)
        os.close(copy)


def _answer(asked: socket.socket, found: int, path: bytes, copy: int, most: int) -> None:
    below = find_below(found, path) if path else os.dup(found)
    try:
        file = open_found(below)
    finally:
        os.close(below)
    try:
        if file.status.size > most:
            asked.sendall(TOO_LARGE)
            return
        os.ftruncate(copy, file.status.size)
        for at in range(0, file.status.size, _BLOCK):
            content = os.pread(file.fd, min(_BLOCK, file.status.size - at), at)
            if content.count(0) < len(content):  # what is zero takes no memory
                os.pwrite(copy, content, at)
            asked.sendall(GOES_ON)
        asked.sendall(COPIED + STATUS.pack(*file.status))
    finally:
        os.close(file.fd)


if __name__ == "__main__":
    main()
