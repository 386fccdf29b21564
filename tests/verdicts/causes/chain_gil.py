"""It waits for a thread of Python, which waits for the interpreter lock of one that computes."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.causes.chain_broker import connected
from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause


def server(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        found: list[int] = []

        def compute() -> None:
            call_thread("calculator")
            found.append(threading.get_native_id())
            sys.set_int_max_str_digits(0)
            # One step of the interpreter, which no other thread can interrupt.
            number = 10**30_000
            while True:
                str(number)

        threading.Thread(target=compute, daemon=True).start()
        while not found:
            pass
        tell(tid=found[0])
        connection, _ = listener.accept()
        with suppress(ConnectionError):
            while connection.recv(1):
                connection.send(b"x")


def client(path: str) -> None:
    connection = connected(path, b"c")
    tell()
    with suppress(ConnectionError):
        while connection.recv(1):
            connection.send(b"x")


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        with running(server, path, name="server") as other, running(client, path) as process:
            truth = cause(
                "wait_chain",
                names=(other.reported["tid"],),
                also=("wait_chain_end", "wait_socket_receive"),
            )
            yield Staged(process.pid, truth, options=("--chains",))
