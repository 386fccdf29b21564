"""It waits for what its TCP peer sends late."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02


def peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        connection, _ = listener.accept()
        while True:
            time.sleep(EVERY_S)
            connection.send(b"x")


def victim(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        tell()
        while True:
            connection.recv(1)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(peer, name="peer") as other, running(victim, other.reported["port"]) as process:
        yield Staged(process.pid, cause("wait_socket_receive", names=(other.pid,)))
