"""It connects to a Unix socket whose server accepts slowly."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

ACCEPTS_EVERY_S = 0.02


def server(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        tell()
        while True:
            time.sleep(ACCEPTS_EVERY_S)
            listener.accept()[0].close()


def victim(path: str) -> None:
    tell()
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        with running(server, path, name="server") as other, running(victim, path) as process:
            yield Staged(process.pid, cause("wait_socket_connect", names=(other.pid,)))
