"""TCP and UDP sockets of a network namespace: /proc/PID/net of proc_pid_net(5)."""

import ipaddress
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Of a table: some 25,000 sockets.
MOST_BYTES = 4 << 20

# TCP_LISTEN, include/net/tcp_states.h.
LISTENS = 0x0A

Address = tuple[str, int]
"""A host, as hexadecimal digits in the order of the table, and a port."""


class InetSocket(NamedTuple):
    """A line of a table."""

    local: Address
    remote: Address
    state: int
    inode: int


class Ends(NamedTuple):
    """The two ends of a socket.

    `peer_inode` is that of the other end's socket, 0 where that is not in this namespace, or not
    known. `is_client`: the other end surely accepted the connection.
    """

    local: str
    remote: str | None = None
    peer_inode: int = 0
    is_client: bool = False


def ends_of(pid: int, protocol: str, inode: int) -> Ends | None:
    """Return the ends of the socket of that inode, which a process has; None if it is not found.

    `protocol` is "tcp" or "udp". The other end is looked for in the process's own network
    namespace.
    """
    for table in (protocol, f"{protocol}6"):
        sockets = list(_sockets(Path(f"/proc/{pid}/net/{table}")))
        own = next((each for each in sockets if each.inode == inode), None)
        if own is not None:
            return _ends(own, sockets, is_stream=protocol == "tcp")
    return None


def _ends(own: InetSocket, sockets: list[InetSocket], *, is_stream: bool) -> Ends:
    if not own.remote[1] or (is_stream and own.state == LISTENS):
        return Ends(_text(own.local))
    # What is delivered to itself has the same addresses, the other way round.
    peer = next(
        (each for each in sockets if (each.local, each.remote) == (own.remote, own.local)), None
    )
    if peer is None and not is_stream:
        peer = next((each for each in sockets if _receives(each, own)), None)
    is_client = is_stream and _is_client(own, sockets, is_here=peer is not None)
    return Ends(_text(own.local), _text(own.remote), peer.inode if peer else 0, is_client)


def _is_client(own: InetSocket, sockets: list[InetSocket], *, is_here: bool) -> bool:
    """Whether the other end accepted the connection.

    What is accepted has the port of the socket that listens. Where that is on another machine, the
    own port is one that the kernel chose.
    """
    listening = {each.local[1] for each in sockets if each.state == LISTENS}
    if own.local[1] in listening:
        return False
    if is_here:
        return own.remote[1] in listening
    return _is_chosen(own.local[1]) and not _is_chosen(own.remote[1])


def _is_chosen(port: int) -> bool:
    """Whether the kernel chooses such ports: ip_local_port_range of ip(7)."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        first, last = map(int, text.split())
    except (OSError, ValueError):
        return False
    return first <= port <= last


def _receives(each: InetSocket, own: InetSocket) -> bool:
    """Whether an unconnected socket gets what the other sends, by that very address."""
    return each.local == own.remote and not each.remote[1]


def _sockets(table: Path) -> Iterator[InetSocket]:
    try:
        with table.open() as file:
            text = file.read(MOST_BYTES)
    except OSError:
        return
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[9].isdecimal():
            yield InetSocket(
                _address(words[1]), _address(words[2]), int(words[3], 16), int(words[9])
            )


def _address(text: str) -> Address:
    host, _, port = text.partition(":")
    return host, int(port, 16)


def _text(address: Address) -> str:
    """HOST:PORT; net/ipv4/tcp_ipv4.c prints words of 32 bits as the machine has them."""
    host, port = address
    words = [int(host[at : at + 8], 16) for at in range(0, len(host), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    ip = ipaddress.ip_address(packed)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is None:
            return f"[{ip}]:{port}"
        ip = ip.ipv4_mapped
    return f"{ip}:{port}"
