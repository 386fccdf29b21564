"""It waits for an event loop, which waits for one process that computes, and serves another."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.relays import ANSWER_S
from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import Staged, cause

# The other one asks so often while the first waits for its answer.
PAUSE_S = ANSWER_S / 10


def broker(path: str) -> None:
    """Answer the chatter at once, and the client when the worker has answered."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        tell()
        # By their first byte: in what order they connect does not matter.
        ends = {}
        for _ in range(3):
            end, _ = listener.accept()
            ends[end.recv(1)] = end
    poll = select.epoll()
    names = {end.fileno(): name for name, end in ends.items()}
    for fd in names:
        poll.register(fd, select.EPOLLIN)
    other = {b"c": ends[b"w"], b"w": ends[b"c"], b"o": ends[b"o"]}
    with suppress(ConnectionError):
        while True:
            for fd, _ in poll.poll():
                name = names[fd]
                if not ends[name].recv(1):
                    return
                other[name].send(b"x")


def connected(path: str, name: bytes) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.send(name)
    return connection


def worker(path: str) -> None:
    connection = connected(path, b"w")
    tell()
    with suppress(ConnectionError):
        while connection.recv(1):
            spin(ANSWER_S)
            connection.send(b"x")


def chatter(path: str) -> None:
    connection = connected(path, b"o")
    tell()
    with suppress(ConnectionError):
        while True:
            time.sleep(PAUSE_S)
            connection.send(b"x")
            connection.recv(1)


def client(path: str) -> None:
    connection = connected(path, b"c")
    tell()
    with suppress(ConnectionError):
        while True:
            connection.send(b"x")
            connection.recv(1)


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        with (
            running(broker, path, name="broker"),
            running(worker, path, name="worker") as root,
            running(chatter, path, name="chatter") as innocent,
            running(client, path) as process,
        ):
            truth = cause(
                "wait_chain",
                names=(root.pid,),
                also=("wait_chain_end", "wait_socket_receive"),
                innocent=(innocent.pid,),
            )
            yield Staged(process.pid, truth, options=("--chains",))
