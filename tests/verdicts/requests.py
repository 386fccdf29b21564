"""A client that asks a server over and over, by pipes, a Unix socket or TCP on loopback."""

import itertools
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.verdicts.staging import Process, running, spin, tell

# How long the server computes for an answer.
ANSWER_S = 0.05


class Asking(NamedTuple):
    """A client, and the server that it asks."""

    client: Process
    server: Process

    def stop_server(self) -> None:
        """Have a signal stop it; it ends with the stage all the same."""
        os.kill(self.server.pid, signal.SIGSTOP)


def serve_pipe(requests: str, answers: str) -> None:
    tell()
    with open(requests, "rb", buffering=0) as source, open(answers, "wb", buffering=0) as sink:
        while source.read(1):
            spin(ANSWER_S)
            sink.write(b"x")


def ask_pipe(requests: str, answers: str) -> None:
    with open(requests, "wb", buffering=0) as sink, open(answers, "rb", buffering=0) as source:
        sink.write(b"x")
        source.read(1)
        tell()
        while sink.write(b"x"):
            source.read(1)


def serve_unix(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        tell()
        _answer(listener)


def ask_unix(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        _ask(connection)


def serve_tcp(answer_s: str = str(ANSWER_S)) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        _answer(listener, float(answer_s))


def ask_tcp(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        _ask(connection)


def ask_by_epoll(*ports: str) -> None:
    """Ask each of these in turn, and wait for all of them at once, as an event loop does."""
    connections = [socket.create_connection(("127.0.0.1", int(port))) for port in ports]
    by_fd = {connection.fileno(): connection for connection in connections}
    with select.epoll() as epoll:
        for fd in by_fd:
            epoll.register(fd, select.EPOLLIN)
        for turn in itertools.count():
            if turn == len(connections):
                # All have accepted.
                tell()
            connections[turn % len(connections)].send(b"x")
            ((fd, _),) = epoll.poll()
            by_fd[fd].recv(1)


def _answer(listener: socket.socket, answer_s: float = ANSWER_S) -> None:
    connection, _ = listener.accept()
    # The client ends first.
    with suppress(ConnectionError):
        while connection.recv(1):
            spin(answer_s)
            connection.send(b"x")


def _ask(connection: socket.socket) -> None:
    # Once that is answered the server has accepted.
    connection.send(b"x")
    connection.recv(1)
    tell()
    while connection.send(b"x"):
        connection.recv(1)


@contextmanager
def by_pipe() -> Iterator[Asking]:
    with TemporaryDirectory() as folder:
        paths = [f"{folder}/{name}" for name in ("requests", "answers")]
        for path in paths:
            os.mkfifo(path)
        with (
            running(serve_pipe, *paths, name="server") as server,
            running(ask_pipe, *paths, name="client") as client,
        ):
            yield Asking(client, server)


@contextmanager
def by_unix() -> Iterator[Asking]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        with (
            running(serve_unix, path, name="server") as server,
            running(ask_unix, path, name="client") as client,
        ):
            yield Asking(client, server)


@contextmanager
def by_tcp() -> Iterator[Asking]:
    with (
        running(serve_tcp, name="server") as server,
        running(ask_tcp, server.reported["port"], name="client") as client,
    ):
        yield Asking(client, server)


@contextmanager
def by_epoll() -> Iterator[tuple[Asking, Process]]:
    """The server of the client is one of two; the other one answers at once."""
    with (
        running(serve_tcp, name="server") as server,
        running(serve_tcp, 0.0, name="other") as other,
        running(
            ask_by_epoll, server.reported["port"], other.reported["port"], name="client"
        ) as client,
    ):
        yield Asking(client, server), other
