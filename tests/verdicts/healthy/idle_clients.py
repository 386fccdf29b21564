"""It has connections to two servers, waits in epoll, and has nothing to ask.

One has answered, and is stopped since. The other one got lines of a log, which nobody answers.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged

LINES = 8


def serve() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        connection, _ = listener.accept()
        # The client ends first.
        with suppress(ConnectionError):
            connection.recv(9)
            connection.send(b"welcome")
            while connection.recv(9):
                pass


def wait_for_both(asked: str, log: str) -> None:
    ports = (int(asked), int(log))
    server, receiver = (socket.create_connection(("127.0.0.1", port)) for port in ports)
    with server, receiver, select.epoll() as epoll:
        for each in (server, receiver):
            each.send(b"hello")
            each.recv(9)
            epoll.register(each, select.EPOLLIN)
        for _ in range(LINES):
            time.sleep(0.02)
            receiver.send(b"a line")
        tell()
        epoll.poll()


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(serve, name="server") as server,
        running(serve, name="receiver") as receiver,
        running(wait_for_both, server.reported["port"], receiver.reported["port"]) as process,
    ):
        os.kill(server.pid, signal.SIGSTOP)
        yield Staged(process.pid, HEALTHY)
