"""Whose turn it is on a TCP connection: tcp_info of tcp(7), by the kernel's sock_diag(7)."""

import ipaddress
import struct
import sys
from collections.abc import Callable
from typing import Literal

from kernel_delay.host.netlink import HEADER, attributes
from kernel_delay.host.open_files.unix import SOCK_DIAG_BY_FAMILY
from kernel_delay.model import SleepFile

# include/uapi/linux/in.h, inet_diag.h and linux/socket.h
AF_INET = 2
AF_INET6 = 10
IPPROTO_TCP = 6
INET_DIAG_INFO = 2

REQUEST = struct.Struct("=BBBBI")
"""struct inet_diag_req_v2 up to its id."""

ID = struct.Struct("=2s2s16s16sIII")
"""struct inet_diag_sockid."""

MESSAGE = struct.Struct(f"=BBBB{ID.size}sIIIII")
"""struct inet_diag_msg."""

ANY_COOKIE = 0xFFFFFFFF
ALL_STATES = 0xFFFFFFFF

# struct tcp_info of include/uapi/linux/tcp.h (4.6 on): tcpi_last_data_sent, tcpi_last_data_recv,
# in ms ago; tcpi_data_segs_in, tcpi_data_segs_out.
_LAST_SENT, _LAST_RECEIVED, _SEGMENTS, _END = 44, 52, 152, 160

# Who got more segments of data than that and never sent any takes what it gets, as a log's receiver
# does. Who connects for a single request has not sent more.
MOST_UNANSWERED = 16

Turn = Literal["own", "other"]


def turn(ask: Callable[[bytes], bytes | None], file: SleepFile) -> Turn | None:
    """Return who is to send next on a connection: the end that got data, and sent none since.

    None if that is not known, nothing was sent, both ends sent at about the same time, or the other
    end never answers.

    Args:
        ask: Asks the kernel, as UnixSockets.ask() does.
        file: The socket, with the addresses of both ends.
    """
    try:
        source, destination = _address(file.name), _address(file.peer_address or "")
    except ValueError:
        return None
    family = AF_INET if len(source[0]) == len(destination[0]) == 4 else AF_INET6
    wanted = ID.pack(
        source[1], destination[1], source[0], destination[0], 0, ANY_COOKIE, ANY_COOKIE
    )
    request = REQUEST.pack(family, IPPROTO_TCP, 1 << INET_DIAG_INFO - 1, 0, ALL_STATES)
    answer = ask(request + wanted)
    return parsed(answer, file.inode) if answer is not None else None


def _address(text: str) -> tuple[bytes, bytes]:
    """The bytes of a host and a port, as in a packet."""
    host, _, port = text.rpartition(":")
    return ipaddress.ip_address(host.strip("[]")).packed, int(port).to_bytes(2)


def parsed(answer: bytes, inode: int) -> Turn | None:
    """Return what an answer says of the socket of that inode; None if it is of another."""
    if len(answer) < HEADER.size + MESSAGE.size:
        return None
    end = HEADER.size + MESSAGE.size
    head: tuple[int, ...] = HEADER.unpack_from(answer)
    length, kind, *_ = head
    found = int.from_bytes(answer[end - 4 : end], sys.byteorder)
    if kind != SOCK_DIAG_BY_FAMILY or found != inode & 0xFFFFFFFF:
        return None
    for attribute, info in attributes(answer[end:length]):
        if attribute == INET_DIAG_INFO and len(info) >= _END:
            return _turn(info)
    return None


def _turn(info: bytes) -> Turn | None:
    places = (_LAST_SENT, _LAST_RECEIVED, _SEGMENTS, _SEGMENTS + 4)
    words = (int.from_bytes(info[at : at + 4], sys.byteorder) for at in places)
    sent_ms, received_ms, received, sent = words
    if received and (not sent or received_ms < sent_ms):
        return "own"
    answers = sent_ms < received_ms if received else 0 < sent <= MOST_UNANSWERED
    return "other" if answers else None
