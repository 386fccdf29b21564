"""It polls a connection, again after each time-out; the server was stopped."""

import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import serve_tcp
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

TIME_OUT_MS = 130


def poll(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        # Once that is answered the server has accepted.
        connection.send(b"x")
        connection.recv(1)
        polled = select.poll()
        polled.register(connection, select.POLLIN)
        tell()
        while True:
            connection.send(b"x")
            while not polled.poll(TIME_OUT_MS):
                pass
            connection.recv(1)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(serve_tcp, name="server") as server,
        running(poll, server.reported["port"], name="client") as client,
    ):
        os.kill(server.pid, signal.SIGSTOP)
        truth = cause("wait_chain", names=(server.pid, "was stopped"))
        yield Staged(client.pid, truth, options=("--chains",))
