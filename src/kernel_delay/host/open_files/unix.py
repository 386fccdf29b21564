"""The peer of a Unix socket, from the kernel's sock_diag(7).

One request and one answer: a library of all of netlink would take longer to import than this
takes. Python's `socket` is made of `_socket`, and takes 2 ms to import before a window opens.
"""

import _socket
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kernel_delay.host.netlink import (
    OWN_NETWORK,
    attributes,
    message,
    network_path,
    within_network,
)

# include/uapi/linux/sock_diag.h and unix_diag.h
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
UDIAG_SHOW_NAME = 1
UDIAG_SHOW_PEER = 4
UNIX_DIAG_NAME = 0
UNIX_DIAG_PEER = 2

REQUEST = struct.Struct("=BBHIIIII")
# struct nlmsghdr and unix_diag_msg
ANSWER = struct.Struct("=IHHIIBBBBIII")
ANY = 0xFFFFFFFF

# To look at 5,000 processes takes 0.2 s, and the window does not open before.
MOST_PROCESSES = 64
MOST_NETWORKS = 8

ANSWER_BYTES = 4096
ANSWERS_WITHIN_S = 1.0


class UnixSocket(NamedTuple):
    """A Unix socket: the path, or abstract name, that it is bound to, and its peer's inode.

    Empty and 0 where there is none.
    """

    name: str
    peer_inode: int


class UnixSockets:
    """The Unix sockets of some network namespaces, one by one.

    Made before the process gives up its right to make sockets: host/privileges.py.
    """

    def __init__(self, pids: Iterable[int] = ()) -> None:
        """Make the sockets to ask by; where that is refused, no socket is known.

        Args:
            pids: Processes whose namespaces are asked first, and then this one's; of many the first
                are looked at. To enter another one takes CAP_SYS_ADMIN.
        """
        self._asking: list[_socket.socket] = []
        networks = set[int]()
        # CONFIG_NET_NS may be off.
        with suppress(OSError):
            networks.add(os.stat(OWN_NETWORK).st_ino)
        for pid in islice(pids, MOST_PROCESSES):
            with suppress(OSError):
                inode = os.stat(network_path(pid)).st_ino
                if inode not in networks and len(networks) <= MOST_NETWORKS:
                    networks.add(inode)
                    self._asking.append(within_network(pid, _open))
        with suppress(OSError):
            self._asking.append(_open())

    def close(self) -> None:
        """Close what it asks by."""
        for asking in self._asking:
            asking.close()

    def find(self, inode: int) -> UnixSocket | None:
        """Return the socket of that inode.

        None if the kernel does not show it: it is of none of the namespaces, or CONFIG_UNIX_DIAG is
        off.
        """
        wanted = inode & ANY, UDIAG_SHOW_NAME | UDIAG_SHOW_PEER
        answer = self.ask(REQUEST.pack(_socket.AF_UNIX, 0, 0, ANY, *wanted, ANY, ANY))
        return parsed(answer, inode) if answer is not None else None

    def ask(self, request: bytes) -> bytes | None:
        """Return the answer to a request for one socket, of any family; None if there is none."""
        for asking in self._asking:
            with suppress(OSError):
                asking.send(message(SOCK_DIAG_BY_FAMILY, request))
                answer = asking.recv(ANSWER_BYTES)
                if _kind(answer) == SOCK_DIAG_BY_FAMILY:
                    return answer
        return None


def _kind(answer: bytes) -> int:
    """The type of a message: of an error it is NLMSG_ERROR."""
    return int.from_bytes(answer[4:6], sys.byteorder)


def _open() -> _socket.socket:
    asking = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, NETLINK_SOCK_DIAG)
    asking.settimeout(ANSWERS_WITHIN_S)
    return asking


def parsed(answer: bytes, inode: int) -> UnixSocket | None:
    """Return what an answer says of the socket of that inode; None if it is of another."""
    if len(answer) < ANSWER.size:
        return None
    fields: tuple[int, ...] = ANSWER.unpack_from(answer)
    length, kind, found = fields[0], fields[1], fields[9]
    if kind != SOCK_DIAG_BY_FAMILY or found != inode & ANY:
        return None
    name, peer_inode = "", 0
    for attribute, value in attributes(answer[ANSWER.size : length]):
        if attribute == UNIX_DIAG_NAME:
            # An abstract name begins with a zero byte: unix(7).
            text = value.decode(errors="backslashreplace")
            name = f"@{text[1:]}" if text.startswith("\0") else text.rstrip("\0")
        elif attribute == UNIX_DIAG_PEER and len(value) >= 4:
            peer_inode = int.from_bytes(value[:4], sys.byteorder)
    return UnixSocket(name, peer_inode)
