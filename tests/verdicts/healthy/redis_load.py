"""A Redis that answers a few hundred requests a second."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import redis
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged

EVERY_S = 0.003


def client(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tell()
        while True:
            connection.send(b"INCR counter\r\n")
            connection.recv(100)
            time.sleep(EVERY_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with redis() as (process, path), running(client, path, name="client"):
        yield Staged(process.pid, HEALTHY)
