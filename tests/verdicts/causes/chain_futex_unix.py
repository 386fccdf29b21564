"""Its thread waits by a semaphore for another one, which waits for a process that computes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.relays import ANSWER_S
from tests.verdicts.staging import call_thread, running, spin, tell
from tests.verdicts.truth import Staged, cause


def server(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        tell()
        connection, _ = listener.accept()
        with suppress(ConnectionError):
            while connection.recv(1):
                spin(ANSWER_S)
                connection.send(b"x")


def victim(path: str) -> None:
    done = threading.Semaphore(0)
    asked = threading.Semaphore(0)

    def ask() -> None:
        call_thread("asker")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            while asked.acquire():
                connection.send(b"x")
                connection.recv(1)
                done.release()

    threading.Thread(target=ask, daemon=True).start()
    tell()
    while True:
        asked.release()
        done.acquire()


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        with (
            running(server, path, name="server") as other,
            running(victim, path) as process,
        ):
            truth = cause("wait_chain", names=(other.pid,))
            yield Staged(process.pid, truth, options=("--chains",))
