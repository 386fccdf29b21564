"""It waits for a server that is stopped, and so has not accepted the connection."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause


def serve() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        signal.pause()


def ask(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.send(b"x")
        tell()
        connection.recv(1)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(serve, name="server") as server,
        running(ask, server.reported["port"], name="client") as client,
    ):
        os.kill(server.pid, signal.SIGSTOP)
        names = (server.pid, "was stopped")
        yield Staged(client.pid, cause("wait_socket_receive", names=names))
