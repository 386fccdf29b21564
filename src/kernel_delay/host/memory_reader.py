"""The process that reads the memory of others: process_memory.py runs it, and asks it.

A read may last forever. So this process has nothing that anybody waits for: no output, no terminal,
and no file but the memory that it reads. It opens nothing and has no capabilities.
"""

import os
import signal
import socket

from kernel_delay.host import privileges
from kernel_delay.host.process_memory import ANSWER, REQUEST

# A signal to all processes of a unit is the tool's to handle.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_CALLS = (*privileges.CALLS_OF_A_FILTER, "recvfrom", "recvmsg", "sendto", "pread64")


def main() -> None:
    """Answer each request, until the process at the other end is gone."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    asked = socket.socket(fileno=0)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    privileges.refuse_tracers()
    privileges.keep_nothing(_CALLS)
    asked.sendall(b"\0")
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
