"""A server with a thread for each client, of which one that was answered is stopped."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.healthy.request_server import SIZE, WORKS_S, client
from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import HEALTHY, Staged


def serve(connection: socket.socket) -> None:
    while request := connection.recv(SIZE):
        spin(WORKS_S)
        connection.send(request)


def server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        busy, _ = listener.accept()
        idle, _ = listener.accept()
        threading.Thread(target=serve, args=(busy,), daemon=True).start()
        serve(idle)


def once(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.send(bytes(SIZE))
        connection.recv(SIZE)
        tell()
        signal.pause()


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(server, name="server") as process,
        running(client, process.reported["port"], name="client"),
        running(once, process.reported["port"], name="once") as idle,
    ):
        os.kill(idle.pid, signal.SIGSTOP)
        yield Staged(process.pid, HEALTHY, options=("--chains",))
