"""It asks a server over UDP, which answers late."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

ANSWERS_AFTER_S = 0.02


def server() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        tell(port=own.getsockname()[1])
        while True:
            question, client = own.recvfrom(512)
            time.sleep(ANSWERS_AFTER_S)
            own.sendto(question, client)


def victim(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.connect(("127.0.0.1", port))
        tell()
        while True:
            own.send(b"who?")
            own.recv(512)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(server, name="server") as other,
        running(victim, other.reported["port"]) as process,
    ):
        # It comes by a soft IRQ, over loopback too: who sent it is not who woke.
        yield Staged(process.pid, cause("wait_socket_receive"))
