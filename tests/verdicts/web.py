"""nginx, a Python application behind it, and PostgreSQL behind that: a request is in all."""

import ctypes
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.verdicts.postgres import LOCKS, USER, postgres, table_locked, wait_for_backend
from tests.verdicts.programs import installed, wait_for
from tests.verdicts.staging import START_S, program, running, tell
from tests.verdicts.truth import NotHereError, Truth, cause

CONFIGURATION = """
user root; daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
events {{}}
http {{
  access_log off;
  server {{
    listen 127.0.0.1:{own_port};
    # It is there when nginx listens.
    listen unix:{folder}/socket;
    location / {{ proxy_pass http://127.0.0.1:{port}; proxy_read_timeout 600s; }}
  }}
}}
"""


class _Database:
    """A connection by libpq: it polls the one socket until the answer is there."""

    def __init__(self, folder: str) -> None:
        try:
            self._library = ctypes.CDLL("libpq.so.5")
        except OSError as error:
            raise NotHereError(str(error)) from error
        self._library.PQconnectdb.restype = ctypes.c_void_p
        parameters = f"host={folder} user={USER} dbname=postgres"
        self._connection = ctypes.c_void_p(self._library.PQconnectdb(parameters.encode()))

    def execute(self, statement: str) -> None:
        self._library.PQexec(self._connection, statement.encode())


def application(folder: str, threads: str) -> None:
    """Serve requests, each of which needs the database."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """The name is the library's."""
            _Database(folder).execute(LOCKS)
            self.send_response(204)
            self.end_headers()

    kind = ThreadingHTTPServer if threads == "threads" else HTTPServer
    with kind(("127.0.0.1", 0), Handler) as server:
        tell(port=server.server_port)
        server.serve_forever()


def user(port: str) -> None:
    """Ask nginx once, and wait."""
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        connection.send(b"GET / HTTP/1.0\r\n\r\n")
        tell()
        connection.recv(1)


class Web(NamedTuple):
    """The processes that the request is in, by their PIDs."""

    worker: int
    application: int
    backend: int
    holder: int


@contextmanager
def request_pending(*, threads: bool = False) -> Iterator[Web]:
    """Have a request wait for a table of the database whose lock a stopped session has."""
    with ExitStack() as stack:
        _, folder = stack.enter_context(postgres())
        holder = stack.enter_context(table_locked(folder))
        # It is not to be left behind, whatever becomes of the cluster.
        stack.callback(os.kill, holder, signal.SIGKILL)
        kind = "threads" if threads else "one"
        app = stack.enter_context(running(application, folder, kind, name="application"))
        own = stack.enter_context(TemporaryDirectory())
        port = _free_port()
        text = CONFIGURATION.format(folder=own, own_port=port, port=app.reported["port"])
        (Path(own) / "nginx.conf").write_text(text)
        command = (installed("nginx"), "-p", own, "-c", "nginx.conf")
        master = stack.enter_context(program(*command, tells=False))
        wait_for(Path(own) / "socket", master)
        stack.enter_context(running(user, port, name="user"))
        backend = wait_for_backend(folder, granted=False)
        os.kill(holder, signal.SIGSTOP)
        yield Web(_child(master.pid), app.pid, backend, holder)


def truth(web: Web, *hops: int) -> Truth:
    """What is true of whoever waits in the end for the database."""
    held = f'{web.holder} of the same program, "postgres: '
    names = (*hops, web.backend, "LOCK TABLE waiting", held, "was stopped all the time")
    return cause("wait_chain_end", names=names)


def _free_port() -> int:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        return int(other.getsockname()[1])


def _child(pid: int) -> int:
    """The only child of a process, when it has one."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if len(words) == 1:
            return int(words[0])
        time.sleep(0.02)
    raise NotHereError(f"{pid} does not fork")
