"""The peer of a Unix socket, from the kernel's sock_diag(7).

One request and one answer: a library of all of netlink would take longer to import than this
takes.
"""

import os
import socket
import struct
from collections.abc import Iterator
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


def unix_socket(inode: int) -> UnixSocket | None:
    """Return the socket of that inode in this process's network namespace.

    None if the kernel does not show it: it is of another namespace, or CONFIG_UNIX_DIAG is off.
    """
    request = REQUEST.pack(
        socket.AF_UNIX,
        0,
        0,
        0xFFFFFFFF,
        inode & 0xFFFFFFFF,
        UDIAG_SHOW_NAME | UDIAG_SHOW_PEER,
        ANY_COOKIE,
        ANY_COOKIE,
    )
    header = HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asking:
            asking.settimeout(ANSWERS_WITHIN_S)
            asking.send(header + request)
            answer = asking.recv(ANSWER_BYTES)
    except OSError:
        return None
    return _parsed(answer)


def _parsed(answer: bytes) -> UnixSocket | None:
    if len(answer) < HEADER.size + MESSAGE.size:
        return None
    length, kind, *_ = HEADER.unpack_from(answer)
    if kind != SOCK_DIAG_BY_FAMILY:
        return None
    name, peer_inode = "", 0
    for attribute, value in _attributes(answer[HEADER.size + MESSAGE.size : length]):
        if attribute == UNIX_DIAG_NAME:
            # An abstract name begins with a zero byte: unix(7).
            text = os.fsdecode(value)
            name = f"@{text[1:]}" if text.startswith("\0") else text.rstrip("\0")
        elif attribute == UNIX_DIAG_PEER and len(value) >= 4:
            peer_inode = int(struct.unpack_from("=I", value)[0])
    return UnixSocket(name, peer_inode)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, at)
        if length < ATTRIBUTE.size:
            return
        yield kind, data[at + ATTRIBUTE.size : at + length]
        # NLA_ALIGN
        at += (length + 3) & ~3
