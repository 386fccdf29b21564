"""Who is connected to the server of metrics: a few at once, each for a limited time."""

import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from ipaddress import IPv6Network, ip_address

from msgspec import Struct

MOST_CLIENTS = 32
"""At once. There is one Prometheus, or two, each 15 s or so."""

CLIENT_S = 10.0
"""From the connection to the last byte of the answer. Prometheus waits as long by default."""

SUBNET_BITS = 64
"""Of an IPv6 address: whoever has one address has its subnet."""


class _Client(Struct):
    source: str
    until_s: float
    may_read: bool = False


class Clients:
    """The connections that are open. A new one always has room: another makes it.

    Those that have not shown that they may read go first, then those of the source that has most,
    then the oldest: a client that asks at once is neither of the last two.
    """

    def __init__(self) -> None:
        """Have none."""
        self._clients: dict[socket.socket, _Client] = {}
        self._lock = threading.Lock()

    def add(self, connection: socket.socket, host: str) -> None:
        """Take a connection from that numeric address; hang up on another if there are too many."""
        with self._lock:
            if len(self._clients) >= MOST_CLIENTS:
                self._hang_up(self._least())
            self._clients[connection] = _Client(source_of(host), time.monotonic() + CLIENT_S)

    def authenticate(self, connection: socket.socket) -> None:
        """Note that this one may read."""
        with self._lock:
            if connection in self._clients:
                self._clients[connection].may_read = True

    def remove(self, connection: socket.socket) -> None:
        """Forget one, which is closed afterwards."""
        with self._lock:
            self._clients.pop(connection, None)

    def hang_up_late(self) -> None:
        """Hang up on those whose time is over, whatever they are at."""
        now_s = time.monotonic()
        with self._lock:
            for connection, client in tuple(self._clients.items()):
                if client.until_s <= now_s:
                    self._hang_up(connection)

    def hang_up_all(self) -> None:
        """Hang up on everyone."""
        with self._lock:
            for connection in tuple(self._clients):
                self._hang_up(connection)

    def _least(self) -> socket.socket:
        """The connection that is to make room; the oldest are first in the dict."""
        of_source = Counter(client.source for client in self._clients.values())

        def order(connection: socket.socket) -> tuple[bool, int]:
            client = self._clients[connection]
            return client.may_read, -of_source[client.source]

        return min(self._clients, key=order)

    def _hang_up(self, connection: socket.socket) -> None:
        """Have the thread that serves it fail at what it reads or writes; it closes the socket."""
        del self._clients[connection]
        hang_up(connection)


def hang_up(connection: socket.socket) -> None:
    """Have another thread fail at what it reads or writes; that one closes the socket."""
    # Not the TLS socket's own: that waits for, and changes, what its thread uses.
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def source_of(host: str) -> str:
    """Return what a numeric address has in common with others of the same client."""
    address = ip_address(host.partition("%")[0])
    if address.version == 4:
        return str(address)
    return str(IPv6Network((int(address), SUBNET_BITS), strict=False))
