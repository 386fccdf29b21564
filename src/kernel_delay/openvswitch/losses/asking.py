"""Questions to the kernel by netlink, in the network namespace of a process."""

import _socket
import os
import struct
from collections.abc import Iterator

from kernel_delay.host import netlink

# include/uapi/linux/netlink.h
_NLM_F_DUMP = 0x300
_NLMSG_ERROR = 2
_NLMSG_DONE = 3

_CHUNK = 1 << 16
MOST_CHUNKS = 64
"""Of a dump no more is read: some 10,000 ports."""

_ANSWERS_WITHIN_S = 0.2


class Asking:
    """A netlink socket in the network namespace of a process."""

    def __init__(self, pid: int, protocol: int) -> None:
        """Make the socket, of that protocol. Raises OSError where that is refused."""

        def made() -> _socket.socket:
            asking = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, protocol)
            asking.settimeout(_ANSWERS_WITHIN_S)
            return asking

        self._asking = netlink.within_network(pid, made)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._asking.close()

    def ask(self, kind: int, request: bytes) -> Iterator[bytes]:
        """Yield the only answer to a request, behind struct nlmsghdr.

        Raises OSError where the kernel refuses, or does not answer.
        """
        return self._answers(kind, request, netlink.NLM_F_REQUEST)

    def dump(self, kind: int, request: bytes) -> Iterator[bytes]:
        """Yield each answer to a request for all there is; raises as ask() does."""
        return self._answers(kind, request, netlink.NLM_F_REQUEST | _NLM_F_DUMP)

    def _answers(self, kind: int, request: bytes, flags: int) -> Iterator[bytes]:
        self._sequence += 1
        self._asking.send(netlink.message(kind, request, flags, self._sequence))
        for _ in range(MOST_CHUNKS):
            chunk = self._asking.recv(_CHUNK)
            while len(chunk) >= netlink.HEADER.size:
                length, found, _, sequence, _ = netlink.HEADER.unpack_from(chunk)
                if length < netlink.HEADER.size:
                    return
                payload, chunk = (
                    chunk[netlink.HEADER.size : length],
                    chunk[netlink.aligned(length) :],
                )
                if sequence != self._sequence:
                    continue  # of a request that was given up
                if found == _NLMSG_DONE:
                    return
                if found == _NLMSG_ERROR:
                    number = -struct.unpack_from("=i", payload)[0]
                    raise OSError(number, os.strerror(number))
                yield payload
                if not flags & _NLM_F_DUMP:
                    return
        raise OSError(0, "there are too many answers")
