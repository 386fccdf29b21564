"""It sends to a Unix socket whose reader is slow."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02
SIZE = 64 * 1024


def reader(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        tell()
        connection, _ = listener.accept()
        while True:
            time.sleep(EVERY_S)
            connection.recv(SIZE)


def victim(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tell()
        while True:
            connection.send(bytes(SIZE))


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        with running(reader, path, name="reader") as other, running(victim, path) as process:
            yield Staged(
                process.pid,
                cause("wait_socket_send", names=(other.pid,), also=("kernel_sleep",)),
            )
