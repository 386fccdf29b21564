"""It connects anew for each request, to a server that computes."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.verdicts.relays import ANSWER_S
from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import Staged, cause


def server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        while True:
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError):
                connection.recv(1)
                spin(ANSWER_S)
                connection.send(b"x")


def client(port: int) -> None:
    tell()
    while True:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.send(b"x")
            connection.recv(1)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(server, name="server") as root,
        running(client, root.reported["port"], name="client") as process,
    ):
        # It computes, and has no CPU on a busy machine.
        truth = cause(
            "wait_chain", names=(root.pid,), also=("wait_chain_end", "wait_socket_receive")
        )
        yield Staged(process.pid, truth, options=("--chains",))
