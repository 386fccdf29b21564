"""Its requests have two parts: the kernel holds the second back until the first is acknowledged."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

PART = bytes(100)


def serve() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        connection, _ = listener.accept()
        while connection.recv(2 * len(PART), socket.MSG_WAITALL):
            connection.send(b"x")


def ask(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        tell()
        while True:
            connection.send(PART)
            connection.send(PART)
            connection.recv(1)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(serve, name="server") as server, running(ask, server.reported["port"]) as client:
        names = (server.pid, "held back 100 bytes that it sent")
        yield Staged(client.pid, cause("wait_socket_receive", names=names))
