"""It sends datagrams to a Unix socket whose reader is slow."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.01


def reader(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(path)
        tell()
        while True:
            time.sleep(EVERY_S)
            own.recv(4096)


def victim(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.connect(path)
        tell()
        while True:
            own.send(b"x")


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        with running(reader, path, name="reader") as other, running(victim, path) as process:
            yield Staged(
                process.pid,
                cause("wait_socket_send", names=(other.pid,), also=("kernel_sleep",)),
            )
