"""TCP and UDP sockets of a network namespace: /proc/PID/net of proc_pid_net(5)."""

import ipaddress
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from kernel_delay.host.proc_text import read_lines

# Of a table: some 25,000 sockets.
MOST_BYTES = 4 << 20

# TCP_ESTABLISHED, TCP_CLOSE_WAIT, TCP_SYN_SENT and TCP_LISTEN, include/net/tcp_states.h.
IS_OPEN = (0x01, 0x08)
CONNECTS = 0x02
LISTENS = 0x0A

# How an IPv4 address begins that a socket of IPv6 has: RFC 4291, 2.5.5.2, as the tables print it.
_MAPPED = "0" * 16 + ("FFFF0000" if sys.byteorder == "little" else "0000FFFF")

Protocol = Literal["tcp", "udp"]

Address = tuple[str, int]
"""A host, as hexadecimal digits in the order of the table, and a port."""


class InetSocket(NamedTuple):
    """A line of a table."""

    protocol: Protocol
    local: Address
    remote: Address
    state: int
    inode: int

    @property
    def is_connected(self) -> bool:
        """Whether it has another end."""
        return self.remote[1] != 0


class Ends(NamedTuple):
    """The two ends of a socket.

    `peer_inode` is that of the other end's socket, or of the one that listens if nobody accepted
    the connection yet; 0 where that is not in this namespace, or not known. `is_client`: the other
    end surely accepted the connection, or is to accept it. `is_server`: this end did.
    """

    local: str
    remote: str | None = None
    peer_inode: int = 0
    is_client: bool = False
    is_server: bool = False


class _Sockets:
    """The sockets of one protocol, of IPv4 and IPv6: a connection may have one of each."""

    def __init__(self, sockets: list[InetSocket]) -> None:
        self.all = sockets
        self.by_inode = {each.inode: each for each in sockets}
        self.by_ends = {(each.local, each.remote): each for each in sockets if each.is_connected}
        self.listening = {each.local[1] for each in sockets if each.state == LISTENS}


class InetSockets:
    """The sockets of a process's own network namespace. A table is read when it is asked for."""

    def __init__(self, process: Path, most_bytes: int = MOST_BYTES) -> None:
        """Those of `process`, a directory such as /proc/123; so much of each table is read."""
        self._process = process
        self._most_bytes = most_bytes
        self._read: dict[Protocol, _Sockets] = {}

    def find(self, inode: int) -> InetSocket | None:
        """Return the socket of that inode; None if there is none."""
        return self._of("tcp").by_inode.get(inode) or self._of("udp").by_inode.get(inode)

    def peer(self, own: InetSocket) -> InetSocket | None:
        """Return the other end of a connection: it has the same addresses the other way round."""
        return self._of(own.protocol).by_ends.get((own.remote, own.local))

    def ends(self, protocol: Protocol, inode: int) -> Ends | None:
        """Return the ends of the socket of that inode; None if it is not found."""
        own = self._of(protocol).by_inode.get(inode)
        if own is None:
            return None
        is_stream = protocol == "tcp"
        if not own.is_connected or (is_stream and own.state == LISTENS):
            return Ends(text_of(own.local))
        known = self._of(protocol)
        sockets = known.all
        peer = self.peer(own)
        if peer is None and not is_stream:
            peer = next((each for each in sockets if _receives(each, own)), None)
        is_here = peer is not None
        if is_stream and _is_to_be_accepted(own, peer):
            peer = next((each for each in sockets if _accepts(each, own.remote)), None)
            is_here = is_here or peer is not None
        is_client = is_stream and _is_client(own, known.listening, is_here=is_here)
        return Ends(
            text_of(own.local),
            text_of(own.remote),
            peer.inode if peer else 0,
            is_client,
            is_stream and _is_server(own, known.listening),
        )

    def listener(self, address: str) -> int:
        """Return the inode of the TCP socket that listens at HOST:PORT; 0 if none is here."""
        for each in self._of("tcp").all:
            if each.state == LISTENS and _is_at(each, address):
                return each.inode
        return 0

    def _of(self, protocol: Protocol) -> _Sockets:
        if protocol not in self._read:
            found = [
                *self._sockets(protocol, self._process / "net" / protocol),
                *self._sockets(protocol, self._process / "net" / f"{protocol}6"),
            ]
            self._read[protocol] = _Sockets(found)
        return self._read[protocol]

    def _sockets(self, protocol: Protocol, table: Path) -> Iterator[InetSocket]:
        try:
            lines = read_lines(table, self._most_bytes)
        except OSError:
            return
        for line in lines[1:]:
            words = line.split()
            if len(words) > 9 and words[9].isdecimal():
                local, remote = _address(words[1]), _address(words[2])
                yield InetSocket(protocol, local, remote, int(words[3], 16), int(words[9]))


def _is_client(own: InetSocket, listening: Container[int], *, is_here: bool) -> bool:
    """Whether the other end accepted the connection.

    What is accepted has the port of the socket that listens. Where that is on another machine, the
    own port is one that the kernel chose.
    """
    if _is_server(own, listening):
        return False
    if is_here:
        return own.remote[1] in listening
    return _is_chosen(own.local[1]) and not _is_chosen(own.remote[1])


def _is_server(own: InetSocket, listening: Container[int]) -> bool:
    return own.local[1] in listening


def _is_chosen(port: int) -> bool:
    """Whether the kernel chooses such ports: ip_local_port_range of ip(7)."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        first, last = map(int, text.split())
    except (OSError, ValueError):
        return False
    return first <= port <= last


def _is_at(each: InetSocket, address: str) -> bool:
    return text_of(each.local) == address or (
        _is_anywhere(each) and address.endswith(f":{each.local[1]}")
    )


def _is_anywhere(each: InetSocket) -> bool:
    """Whether a socket is at a port of any address: 0.0.0.0, or of IPv6."""
    return not each.local[0].strip("0")


def _is_to_be_accepted(own: InetSocket, peer: InetSocket | None) -> bool:
    """Whether its connection waits for accept(2), or for room among those that do."""
    if peer is None:
        return own.state == CONNECTS
    return not peer.inode and peer.state in IS_OPEN


def _accepts(each: InetSocket, address: Address) -> bool:
    """Whether a socket listens for connections to that address: there, or at any."""
    host, port = address
    is_there = each.local[0] == host or _is_anywhere(each)
    return each.state == LISTENS and each.local[1] == port and is_there


def _receives(each: InetSocket, own: InetSocket) -> bool:
    """Whether an unconnected socket gets what the other sends, by that very address."""
    return each.local == own.remote and not each.remote[1]


def _address(text: str) -> Address:
    host, _, port = text.partition(":")
    return host.removeprefix(_MAPPED), int(port, 16)


def text_of(address: Address) -> str:
    """Return HOST:PORT; net/ipv4/tcp_ipv4.c prints words of 32 bits as the machine has them."""
    host, port = address
    words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    ip = ipaddress.ip_address(packed)
    return f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"
