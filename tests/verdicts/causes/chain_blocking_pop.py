"""It waits in Redis for what nobody pushes, while another client asks for something else."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import redis
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

# Redis ends a blocking pop behind the first request after so long.
POP_S = 0.2
EVERY_S = 0.02


def client(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tell()
        while True:
            connection.send(f"BLPOP jobs {POP_S}\r\n".encode())
            connection.recv(100)


def chatter(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tell()
        while True:
            connection.send(b"INCR counter\r\n")
            connection.recv(100)
            time.sleep(EVERY_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        redis() as (server, path),
        running(chatter, path, name="chatter") as other,
        running(client, path, name="client") as process,
    ):
        truth = cause(
            "wait_chain_end",
            names=(server.pid,),
            also=("wait_socket_receive",),
            innocent=(other.pid,),
        )
        yield Staged(process.pid, truth, options=("--chains",))
