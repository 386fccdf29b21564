"""A server that answers fifty requests a second."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import HEALTHY, Staged

EVERY_S, WORKS_S = 0.02, 0.001
SIZE = 100


def server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        connection, _ = listener.accept()
        while True:
            request = connection.recv(SIZE)
            spin(WORKS_S)
            connection.send(request)


def client(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        tell()
        while True:
            connection.send(bytes(SIZE))
            connection.recv(SIZE)
            time.sleep(EVERY_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(server, name="server") as process,
        running(client, process.reported["port"], name="client"),
    ):
        yield Staged(process.pid, HEALTHY)
