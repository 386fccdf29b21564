"""What the kernel knows of a TCP connection: tcp_info of tcp(7), by sock_diag(7)."""

import ipaddress
import struct
import sys
from collections.abc import Callable
from typing import Literal, NamedTuple

from kernel_delay.formatting import NS_PER_MS
from kernel_delay.host.netlink import HEADER, attributes
from kernel_delay.host.open_files.inet import IS_OPEN
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

# There: tcpi_snd_mss, tcpi_unacked, tcpi_snd_cwnd and tcpi_notsent_bytes.
_MOST_OF_SEGMENT, _UNACKNOWLEDGED, _WINDOW, _NOT_SENT = 16, 24, 80, 144

# There: tcpi_state.
_STATE = 0

# There, since 4.19: tcpi_bytes_acked, tcpi_bytes_sent and tcpi_bytes_retrans, each of 64 bits.
_ACKNOWLEDGED, _SENT, _SENT_AGAIN, _END_OF_BYTES = 120, 200, 208, 216

# Who got more segments of data than that and never sent any takes what it gets, as a log's receiver
# does. Who connects for a single request has not sent more.
MOST_UNANSWERED = 16

Turn = Literal["own", "other"]
Role = Literal["client", "server"]


def turn(ask: Callable[[bytes], bytes | None], file: SleepFile) -> Turn | None:
    """Return who is to send next on a connection: the end that got data, and sent none since.

    None if that is not known, nothing was sent, both ends sent at about the same time, or the other
    end never answers.

    Args:
        ask: Asks the kernel, as UnixSockets.ask() does.
        file: The socket, with the addresses of both ends.
    """
    info = _info(ask, file)
    return _turn(info) if info is not None else None


def role(ask: Callable[[bytes], bytes | None], file: SleepFile) -> Role | None:
    """Return whether this end connected, as a client does, or accepted the connection.

    The kernel counts a SYN that was acknowledged among the bytes of the end that sent it, and the
    one that answers it is none of these (net/ipv4/tcp_input.c:tcp_rcv_synsent_state_process(),
    tcp_minisocks.c:tcp_create_openreq_child(), 5.14 to 6.18). A FIN counts as well. None behind
    one, as long as bytes are on their way, or if the kernel does not say.

    Args:
        ask: Asks the kernel, as UnixSockets.ask() does.
        file: The socket, with the addresses of both ends.
    """
    info = _info(ask, file)
    if info is None or len(info) < _END_OF_BYTES:
        return None
    if info[_STATE] not in IS_OPEN or _word(info, _UNACKNOWLEDGED):
        return None
    acknowledged, sent, again = (_long(info, at) for at in (_ACKNOWLEDGED, _SENT, _SENT_AGAIN))
    roles: dict[int, Role] = {1: "client", 0: "server"}
    return roles.get(acknowledged - (sent - again))


class Sending(NamedTuple):
    """What one end of a connection sends.

    Attributes:
        held_back: Bytes that a process sent and the kernel holds back; 0 if none, or not known.
        last_ns: How long ago data was sent last, in ns; if none ever was, since the connection was
            made (net/ipv4/tcp.c:tcp_get_info(), 5.14 to 6.18). None: not known.
    """

    held_back: int = 0
    last_ns: int | None = None


def sending(ask: Callable[[bytes], bytes | None], file: SleepFile) -> Sending:
    """Return what this end sends, by one question to the kernel.

    What is held back is less than a segment, and the other end has not acknowledged earlier ones:
    Nagle's algorithm, RFC 896 (net/ipv4/tcp_output.c:tcp_nagle_check(), 5.14 to 6.18). An end that
    waits for more before it answers delays its acknowledgement too: RFC 1122, 4.2.3.2.

    Args:
        ask: Asks the kernel, as UnixSockets.ask() does.
        file: The socket, with the addresses of both ends. Inode 0: whichever has these.
    """
    info = _info(ask, file)
    if info is None:
        return Sending()
    places = (_MOST_OF_SEGMENT, _UNACKNOWLEDGED, _WINDOW, _NOT_SENT)
    segment, unacknowledged, window, waiting = (_word(info, at) for at in places)
    is_held = 0 < waiting < segment and 0 < unacknowledged < window
    return Sending(waiting if is_held else 0, _word(info, _LAST_SENT) * NS_PER_MS)


def _info(ask: Callable[[bytes], bytes | None], file: SleepFile) -> bytes | None:
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


def parsed(answer: bytes, inode: int) -> bytes | None:
    """Return the struct tcp_info of the socket of that inode; None if an answer is of another."""
    if len(answer) < HEADER.size + MESSAGE.size:
        return None
    end = HEADER.size + MESSAGE.size
    head: tuple[int, ...] = HEADER.unpack_from(answer)
    length, kind, *_ = head
    found = int.from_bytes(answer[end - 4 : end], sys.byteorder)
    if kind != SOCK_DIAG_BY_FAMILY or (inode and found != inode & 0xFFFFFFFF):
        return None
    for attribute, info in attributes(answer[end:length]):
        if attribute == INET_DIAG_INFO and len(info) >= _END:
            return info
    return None


def _turn(info: bytes) -> Turn | None:
    places = (_LAST_SENT, _LAST_RECEIVED, _SEGMENTS, _SEGMENTS + 4)
    sent_ms, received_ms, received, sent = (_word(info, at) for at in places)
    if received and (not sent or received_ms < sent_ms):
        return "own"
    answers = sent_ms < received_ms if received else 0 < sent <= MOST_UNANSWERED
    return "other" if answers else None


def _word(info: bytes, at: int) -> int:
    return int.from_bytes(info[at : at + 4], sys.byteorder)


def _long(info: bytes, at: int) -> int:
    return int.from_bytes(info[at : at + 8], sys.byteorder)
