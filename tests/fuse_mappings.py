"""A process that maps a file of FUSE whose server answers no READ, and may poll what is there.

Whoever reads that memory waits for the server, and SIGKILL does not end that.
"""

import ctypes
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.verdicts import fuse
from tests.verdicts.truth import NotHereError

# What a test that fails may take.
FAILS_AFTER_S = 60

PROT_READ, PROT_EXEC, MAP_PRIVATE = 1, 4, 2
BYTES = 4096


class Mapped(NamedTuple):
    """The process, and where it maps the file, as code too."""

    pid: int
    address: int


def _serve(connection: int) -> None:
    while True:
        request = fuse.next_request(connection)
        if request.operation != fuse.READ:
            fuse.reply(connection, request)


def _map_and_wait(path: Path, user: int, ready: int, polls: bool) -> None:
    os.setgroups(())
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    file = os.open(path, os.O_RDONLY)
    address = libc.mmap(None, BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, ctypes.c_long(0))
    os.write(ready, address.to_bytes(8, "little"))
    if polls:
        libc.poll(ctypes.c_void_p(address), 1, -1)
    signal.pause()


def _child(does: Callable[[], None]) -> int:
    pid = os.fork()
    if not pid:
        signal.alarm(FAILS_AFTER_S)
        try:
            does()
        finally:
            os._exit(1)
    return pid


@contextmanager
def mapped(user: int = 0, *, polls: bool = False) -> Iterator[Mapped]:
    """Such a process of that user; no other user may read the file."""
    folder = Path(tempfile.mkdtemp(prefix="kernel-delay-fuse-"))
    folder.chmod(0o755)
    try:
        connection = fuse.mounted(str(folder), user)
    except (NotHereError, OSError) as error:
        folder.rmdir()
        pytest.skip(f"no FUSE here: {error}")
    mapping, ready = os.pipe()
    server = _child(lambda: _serve(connection))
    os.close(connection)
    client = _child(lambda: _map_and_wait(folder / "file", user, ready, polls))
    os.close(ready)
    try:
        yield Mapped(client, int.from_bytes(os.read(mapping, 8), "little"))
    finally:
        # Whoever waits for the server ends when that has ended.
        for pid in (server, client):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(mapping)
        fuse.unmount(str(folder))
        folder.rmdir()
