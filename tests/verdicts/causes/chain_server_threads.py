"""It waits for a server of which one thread computes; the others accept, or wait for that one."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue

from tests.verdicts.requests import ask_tcp
from tests.verdicts.staging import call_thread, running, spin, tell, thread_named
from tests.verdicts.truth import Staged, cause

WORKERS = 4


def serve() -> None:
    requests: Queue[socket.socket] = Queue()

    def work(number: int) -> None:
        call_thread(f"worker-{number}")
        connection = requests.get()
        connection.recv(1)
        # Of the first request the client is to know that it was accepted.
        connection.send(b"x")
        call_thread("computing")
        connection.recv(1)
        spin()

    for number in range(WORKERS):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        while True:
            requests.put(listener.accept()[0])


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        running(serve, name="server") as server,
        running(ask_tcp, server.reported["port"], name="client") as client,
    ):
        thread = thread_named(server.pid, "computing")
        truth = cause("wait_chain", names=(thread, server.pid), also=("wait_socket_receive",))
        yield Staged(client.pid, truth, options=("--chains",))
