"""The network lets its data through slowly (tc-tbf(8)), in a namespace of its own."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

RATE = ("root", "tbf", "rate", "8mbit", "burst", "64kb", "latency", "1s")


def server() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 4711))
        listener.listen()
        tell()
        connection, _ = listener.accept()
        while connection.recv(1 << 16):
            pass


def victim() -> None:
    tell()
    with socket.create_connection(("127.0.0.1", 4711)) as connection:
        while True:
            connection.sendall(bytes(1 << 16))


@contextmanager
def namespace() -> Iterator[str]:
    """A network of the stage's own, with a slow loopback."""
    name = f"verdict-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], check=False).returncode:
        raise NotHereError("no network namespaces here")
    try:
        for command in (
            ("ip", "link", "set", "lo", "up"),
            ("tc", "qdisc", "add", "dev", "lo", *RATE),
        ):
            if subprocess.run(["ip", "netns", "exec", name, *command], check=False).returncode:
                raise NotHereError(f"{' '.join(command)} is refused")
        yield name
    finally:
        time.sleep(0.1)
        subprocess.run(["ip", "netns", "delete", name], check=True)


@contextmanager
def stage() -> Iterator[Staged]:
    with namespace() as name:
        within = ("ip", "netns", "exec", name)
        with (
            running(server, name="server", within=within),
            running(victim, within=within) as process,
        ):
            yield Staged(process.pid, cause("wait_socket_send", also=("kernel_sleep",)))
