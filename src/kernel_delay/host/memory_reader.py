"""The process that reads the memory of others: process_memory.py runs it, and asks it.

It opens nothing, has no capabilities, and no file but the memory that it reads.
"""

import os
import socket

from kernel_delay.host.abandonable import begin
from kernel_delay.host.process_memory import ANSWER, REQUEST

_CALLS = ("recvfrom", "recvmsg", "sendto", "pread64")


def main() -> None:
    """Answer each request, until the process at the other end is gone."""
    asked = begin(_CALLS)
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, REQUEST.size, 1)
        if len(request) < REQUEST.size or not descriptors:
            return
        address, size = REQUEST.unpack(request)
        try:
            content = os.pread(descriptors[0], size, address)
        except OSError:
            content = b""
        os.close(descriptors[0])
        asked.sendall(ANSWER.pack(len(content)) + content)


if __name__ == "__main__":
    main()
