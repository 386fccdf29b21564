"""A process that maps a file of FUSE whose server answers no READ, and may poll what is there.

Whoever reads that memory waits for the server, and SIGKILL does not end that.
"""

import ctypes
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.fuse_processes import served
from tests.verdicts import fuse

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


@contextmanager
def mapped(user: int = 0, *, polls: bool = False) -> Iterator[Mapped]:
    """Such a process of that user; no other user may read the file."""
    folder = Path(tempfile.mkdtemp(prefix="kernel-delay-fuse-"))
    folder.chmod(0o755)
    try:
        with served(
            folder, _serve, lambda ready: _map_and_wait(folder / "file", user, ready, polls), user
        ) as found:
            yield Mapped(found.client, int.from_bytes(os.read(found.written, 8), "little"))
    finally:
        folder.rmdir()
