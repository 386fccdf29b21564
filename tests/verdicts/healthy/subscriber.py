"""It logs the messages that a broker sends it now and then, and has nothing to do in between."""

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged

EACH_S = 0.03


def broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        connection, _ = listener.accept()
        # The subscriber ends first.
        with suppress(ConnectionError):
            connection.recv(9)
            # It has been a while since the subscriber asked for them.
            time.sleep(2)
            while connection.send(b"message"):
                time.sleep(EACH_S)


def subscriber(port: str) -> None:
    log = os.open(os.devnull, os.O_WRONLY)
    with socket.create_connection(("127.0.0.1", int(port))) as connection, select.epoll() as epoll:
        connection.send(b"subscribe")
        epoll.register(connection, select.EPOLLIN)
        for number in range(1 << 30):
            epoll.poll()
            os.write(log, connection.recv(99))
            if not number:
                tell()


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(broker, name="broker") as sender,
        running(subscriber, sender.reported["port"]) as process,
    ):
        yield Staged(process.pid, HEALTHY)
