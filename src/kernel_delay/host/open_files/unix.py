"""The peer of a Unix socket, from the kernel's sock_diag(7).

One request and one answer: a library of all of netlink would take longer to import than this
takes. Python's `socket` is made of `_socket`, and takes 2 ms to import before a window opens.
"""

import _socket
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

# include/uapi/linux/netlink.h, sock_diag.h and unix_diag.h
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
UDIAG_SHOW_NAME = 1
UDIAG_SHOW_PEER = 4
UNIX_DIAG_NAME = 0
UNIX_DIAG_PEER = 2

HEADER = struct.Struct("=IHHII")
REQUEST = struct.Struct("=BBHIIIII")
MESSAGE = struct.Struct("=BBBBIII")
ATTRIBUTE = struct.Struct("=HH")
ANY_COOKIE = 0xFFFFFFFF

ANSWER_BYTES = 4096
ANSWERS_WITHIN_S = 1.0


class UnixSocket(NamedTuple):
    """A Unix socket: the path, or abstract name, that it is bound to, and its peer's inode.

    Empty and 0 where there is none.
    """

    name: str
    peer_inode: int


class UnixSockets:
    """The Unix sockets of this process's network namespace, one by one.

    Made before the process gives up its right to make sockets: host/privileges.py.
    """

    def __init__(self) -> None:
        """Make the socket to ask by; where that is refused, no socket is known."""
        self._asking: _socket.socket | None = None
        with suppress(OSError):
            self._asking = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, NETLINK_SOCK_DIAG)
            self._asking.settimeout(ANSWERS_WITHIN_S)

    def close(self) -> None:
        """Close what it asks by."""
        if self._asking is not None:
            self._asking.close()

    def find(self, inode: int) -> UnixSocket | None:
        """Return the socket of that inode.

        None if the kernel does not show it: it is of another namespace, or CONFIG_UNIX_DIAG is off.
        """
        request = REQUEST.pack(
            _socket.AF_UNIX,
            0,
            0,
            0xFFFFFFFF,
            inode & 0xFFFFFFFF,
            UDIAG_SHOW_NAME | UDIAG_SHOW_PEER,
            ANY_COOKIE,
            ANY_COOKIE,
        )
        answer = self.ask(request)
        return parsed(answer, inode) if answer is not None else None

    def ask(self, request: bytes) -> bytes | None:
        """Return the answer to a request for one socket, of any family; None if there is none."""
        if self._asking is None:
            return None
        size = HEADER.size + len(request)
        header = HEADER.pack(size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
        try:
            self._asking.send(header + request)
            return self._asking.recv(ANSWER_BYTES)
        except OSError:
            return None


def parsed(answer: bytes, inode: int) -> UnixSocket | None:
    """Return what an answer says of the socket of that inode; None if it is of another."""
    if len(answer) < HEADER.size + MESSAGE.size:
        return None
    length, kind, *_ = HEADER.unpack_from(answer)
    _, _, _, _, found, *_ = MESSAGE.unpack_from(answer, HEADER.size)
    if kind != SOCK_DIAG_BY_FAMILY or found != inode & 0xFFFFFFFF:
        return None
    name, peer_inode = "", 0
    for attribute, value in attributes(answer[HEADER.size + MESSAGE.size : length]):
        if attribute == UNIX_DIAG_NAME:
            # An abstract name begins with a zero byte: unix(7).
            text = os.fsdecode(value)
            name = f"@{text[1:]}" if text.startswith("\0") else text.rstrip("\0")
        elif attribute == UNIX_DIAG_PEER and len(value) >= 4:
            peer_inode = int(struct.unpack_from("=I", value)[0])
    return UnixSocket(name, peer_inode)


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the netlink attributes in a row of bytes: their kinds and values."""
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, at)
        if length < ATTRIBUTE.size:
            return
        yield kind, data[at + ATTRIBUTE.size : at + length]
        # NLA_ALIGN
        at += (length + 3) & ~3
