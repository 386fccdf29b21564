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

from tests.fuse_processes import child, served
from tests.system_calls import syscall_number
from tests.verdicts import fuse
from tests.workload import wait_until

PROT_READ, PROT_EXEC, MAP_PRIVATE, MAP_ANONYMOUS = 1, 4, 2, 0x20
BYTES = 4096

# Has the process map memory.
MAPS_MORE = signal.SIGUSR1


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
    signal.pthread_sigmask(signal.SIG_BLOCK, (MAPS_MORE,))
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
    signal.sigwait((MAPS_MORE,))
    libc.mmap(None, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, ctypes.c_long(0))


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


def _read(pid: int, address: int) -> None:
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    os.pread(memory, 8, address)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def locked() -> Iterator[int]:
    """Such a process whose address space is locked: another one reads it, and it maps memory."""
    readers: list[int] = []
    try:
        with mapped() as (pid, address):
            readers.append(reader := child(lambda: _read(pid, address)))
            wait_until(lambda: _state(reader) in "SD" and _is_in(reader, "pread64"))
            os.kill(pid, MAPS_MORE)
            wait_until(lambda: _state(pid) == "D" and _is_in(pid, "mmap"))
            yield pid
    finally:
        # They end when the server has ended.
        for each in readers:
            os.waitpid(each, 0)


def _is_in(pid: int, call: str) -> bool:
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] == str(syscall_number(call))
