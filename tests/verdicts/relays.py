"""Chains of processes: each asks the next and waits for its answer; the last one answers late."""

import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.verdicts.cgroups import cpu_quota, join
from tests.verdicts.staging import Process, running, spin, tell
from tests.verdicts.truth import Staged, cause

# How long the last one takes for an answer.
ANSWER_S = 0.05


class Chain(NamedTuple):
    """The first, and the others, each of which the one before waits for."""

    client: Process
    others: Sequence[Process]

    @property
    def root(self) -> Process:
        """The last of them."""
        return self.others[-1]


class _Line(NamedTuple):
    """One end of a connection, or of two pipes."""

    source: int
    sink: int

    def ask(self) -> None:
        self.answer()
        self.wait()

    def answer(self) -> None:
        # The client ends first.
        with suppress(ConnectionError):
            os.write(self.sink, b"x")

    def wait(self) -> bool:
        try:
            return bool(os.read(self.source, 1))
        except ConnectionError:
            return False


def _connect(kind: str, folder: str, number: int) -> _Line:
    """Connect to the process of that number, which listens."""
    path = f"{folder}/{number}"
    if kind == "pipe":
        sink = os.open(f"{path}.requests", os.O_WRONLY)
        return _Line(os.open(f"{path}.answers", os.O_RDONLY), sink)
    own = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
    own.connect(path if kind == "unix" else ("127.0.0.1", int(Path(path).read_text())))
    fd = own.detach()
    return _Line(fd, fd)


def _accept(kind: str, folder: str, number: int) -> _Line:
    """Tell that it listens, and wait for who connects."""
    path = f"{folder}/{number}"
    if kind == "pipe":
        for name in ("requests", "answers"):
            os.mkfifo(f"{path}.{name}")
        tell()
        source = os.open(f"{path}.requests", os.O_RDONLY)
        return _Line(source, os.open(f"{path}.answers", os.O_WRONLY))
    with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as listener:
        listener.bind(path if kind == "unix" else ("127.0.0.1", 0))
        listener.listen()
        if kind == "tcp":
            Path(path).write_text(str(listener.getsockname()[1]))
        tell()
        fd = listener.accept()[0].detach()
    return _Line(fd, fd)


def root(kind: str, folder: str, number: str, how: str) -> None:
    """Answer late."""
    line = _accept(kind, folder, int(number))
    while line.wait():
        if how == "timer":
            time.sleep(ANSWER_S)
        else:
            spin(ANSWER_S)
        line.answer()


def relay(kind: str, folder: str, number: str) -> None:
    """Ask the next for each request."""
    further = _connect(kind, folder, int(number) + 1)
    line = _accept(kind, folder, int(number))
    while line.wait():
        further.ask()
        line.answer()


def client(kind: str, folder: str) -> None:
    """Ask over and over."""
    line = _connect(kind, folder, 1)
    line.ask()
    tell()
    while True:
        line.ask()


@contextmanager
def chain(kind: str, hops: int, how: str = "computes") -> Iterator[Chain]:
    """A client, and so many others behind one another."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        others = [
            stack.enter_context(running(root, kind, folder, hops, how, name="root")),
            *(
                stack.enter_context(running(relay, kind, folder, number, name=f"relay-{number}"))
                for number in range(hops - 1, 0, -1)
            ),
        ]
        asking = stack.enter_context(running(client, kind, folder, name="client"))
        yield Chain(asking, others[::-1])


@contextmanager
def staged(kind: str, hops: int, how: str) -> Iterator[Staged]:
    """The chain, and what is true of it: on a busy machine a root that computes may have no CPU."""
    quota = cpu_quota(10_000, 100_000) if how == "throttled" else nullcontext()
    with quota as group, chain(kind, hops, how) as relays:
        said = {"stopped": "was stopped", "throttled": "was throttled", "timer": "on a timer"}
        names = (relays.root.pid, *([said[how]] if how in said else []))
        if how == "stopped":
            os.kill(relays.root.pid, signal.SIGSTOP)
        if group is not None:
            join(group, relays.root.pid)
        truth = cause("wait_chain", names=names)
        yield Staged(relays.client.pid, truth, options=("--chains",))
