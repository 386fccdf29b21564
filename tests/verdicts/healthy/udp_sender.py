"""It sends over loopback in bursts: what receives there runs as its own soft IRQ."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, Truth

BURST = 200
EVERY_S = 0.01
SIZE = 1400


def receiver() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        tell(port=endpoint.getsockname()[1])
        while True:
            endpoint.recv(SIZE)


def sender(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.connect(("127.0.0.1", port))
        tell()
        while True:
            for _ in range(BURST):
                endpoint.send(bytes(SIZE))
            time.sleep(EVERY_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(receiver, name="receiver") as other,
        running(sender, other.reported["port"], name="sender") as process,
    ):
        # Sending is what it is there for, and may well be much.
        truth = Truth(also=frozenset({"user_work", "kernel_work"}), acquits=True)
        yield Staged(process.pid, truth)
