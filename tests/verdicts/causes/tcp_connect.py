"""It connects to a server that does not accept, and whose queue is full."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.verdicts.staging import LIFE_S, running, tell
from tests.verdicts.truth import Staged, cause

# include/net/tcp_states.h: of a connection that is not answered.
SYN_SENT = "02"


def server() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        tell(port=listener.getsockname()[1])
        time.sleep(LIFE_S)


def connect(port: int) -> None:
    with socket.socket() as own, suppress(OSError):
        own.connect(("127.0.0.1", port))
        time.sleep(LIFE_S)


def is_full(port: int) -> bool:
    """Whether somebody waits to be let in; on loopback others are at once."""
    connections = (line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines())
    return any(
        other.endswith(f":{port:04X}") and state == SYN_SENT
        for _, _, other, state, *_ in connections
    )


def victim(port: int) -> None:
    for _ in range(4):
        threading.Thread(target=connect, args=(port,), daemon=True).start()
    while not is_full(port):
        time.sleep(0.01)
    tell()
    connect(port)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(server, name="server") as other,
        running(victim, other.reported["port"]) as process,
    ):
        yield Staged(process.pid, cause("wait_socket_connect"))
