"""It waits in Redis for what one pushes that sleeps, while another client asks for more."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.causes.chain_blocking_pop import chatter
from tests.verdicts.programs import redis
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.1


def client(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tell()
        while True:
            connection.send(b"BLPOP jobs 0\r\n")
            connection.recv(100)


def producer(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tell()
        while True:
            time.sleep(EVERY_S)
            connection.send(b"LPUSH jobs job\r\n")
            connection.recv(100)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        redis() as (_, path),
        running(chatter, path, name="chatter") as other,
        running(producer, path, name="producer") as root,
        running(client, path, name="client") as process,
    ):
        truth = cause(
            "wait_chain",
            names=(root.pid, "on a timer"),
            also=("wait_chain_end", "wait_socket_receive"),
            innocent=(other.pid,),
        )
        yield Staged(process.pid, truth, options=("--chains",))
