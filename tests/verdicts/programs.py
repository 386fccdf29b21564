"""Programs that are installed, and servers, as stages run them."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cache import built
from tests.verdicts.staging import START_S, Process, program, tell
from tests.verdicts.truth import NotHereError


@contextmanager
def java(source: Path, *options: str) -> Iterator[Process]:
    """Compile and run a Java class, with these options of the VM; it tells when it is ready."""

    def make(folder: Path) -> None:
        subprocess.run([installed("javac"), "-d", folder, source], check=True)

    classes = built(source.stem, make, source)
    with program(installed("java"), *options, "-cp", classes, source.stem) as process:
        yield process


@contextmanager
def go(source: Path, *arguments: object) -> Iterator[Process]:
    """Compile and run a Go program; it tells when it is ready."""

    def make(folder: Path) -> None:
        environment = {**os.environ, "GO111MODULE": "off", "CGO_ENABLED": "0"}
        command = (installed("go"), "build", "-o", str(folder / source.stem), str(source))
        subprocess.run(command, check=True, env=environment)

    with program(built(source.stem, make, source) / source.stem, *arguments) as process:
        yield process


def installed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise NotHereError(f"{name} is not installed: setup/packages-verdicts.txt has it")
    return path


@contextmanager
def redis() -> Iterator[tuple[Process, Path]]:
    """A Redis of the stage's own, and its Unix socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        options = ("--port", 0, "--unixsocket", path, "--dir", folder, "--save", "")
        with program(installed("redis-server"), *options, tells=False) as process:
            wait_for(path, process)
            yield process, path


def ask_redis(path: str, request: str, every_ms: int = 0) -> None:
    """Send a request again and again, each after the answer to the one before, and a sleep."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tell()
        while True:
            connection.send(f"{request}\r\n".encode())
            connection.recv(100)
            if every_ms:
                time.sleep(every_ms / 1000)


def wait_for(path: Path, process: Process) -> None:
    """Wait until a server has made its socket."""
    deadline = time.monotonic() + START_S
    while not path.exists():
        if process.process.poll() is not None or time.monotonic() > deadline:
            raise NotHereError(f"{process.process.args!r} does not serve")
        time.sleep(0.02)
