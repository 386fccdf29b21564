"""It connects to a server that does not accept, and whose queue is full."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

# Longer than the stage lasts: the kernel tries it again and again.
LASTS_S = 170


def server() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        tell(port=listener.getsockname()[1])
        time.sleep(LASTS_S)


def connect(port: int) -> None:
    with socket.socket() as own, suppress(OSError):
        own.connect(("127.0.0.1", port))
        time.sleep(LASTS_S)


def victim(port: int) -> None:
    for _ in range(4):
        threading.Thread(target=connect, args=(port,), daemon=True).start()
    time.sleep(0.5)
    tell()
    connect(port)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(server, name="server") as other,
        running(victim, other.reported["port"]) as process,
    ):
        yield Staged(process.pid, cause("wait_socket_connect"))
