"""Files of a FUSE file system whose server is stopped: it is named, and nobody asks it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kernel_delay.host.file_status import file_status
from kernel_delay.host.open_files import kernel_device
from kernel_delay.host.open_files.fuse import fuse_server, is_fuse
from tests.fuse_processes import FAILS_AFTER_S, served
from tests.verdicts import fuse

READS = """
import sys
from kernel_delay.host.open_files import describe
print(describe(*map(int, sys.argv[1:])).kind)
"""


# Its own descriptor becomes the file of the stopped server while it is described.
TURNS = """
import os, socket, sys
from kernel_delay.host import open_files
held, _ = socket.socketpair()
sockets, file = os.dup(held.fileno()), os.open(sys.argv[1], os.O_PATH)
access = open_files.access
def turn(path):
    os.dup2(file, sockets)
    return access(path)
open_files.access = turn
inode = os.fstat(held.fileno()).st_ino & open_files.INODE_MASK
print(open_files.describe(os.getpid(), os.getpid(), sockets, inode).kind)
"""


class Stopped(NamedTuple):
    """A process with a file of a FUSE file system; its server, and that one's descriptor."""

    client: int
    fd: int
    server: int
    connection: int


def serve(connection: int) -> None:
    while True:
        fuse.reply(connection, fuse.next_request(connection))


def open_and_wait(path: Path, ready: int) -> None:
    os.write(ready, bytes([os.open(path, os.O_RDONLY)]))
    while True:
        signal.pause()


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Stopped]:
    """A file of another process, whose server is stopped."""
    with served(tmp_path, serve, lambda ready: open_and_wait(tmp_path / "file", ready)) as found:
        (fd,) = os.read(found.written, 1)
        os.kill(found.server, signal.SIGSTOP)
        yield Stopped(found.client, fd, found.server, found.connection)


def test_file_of_a_stopped_server_is_described(stopped: Stopped) -> None:
    numbers = (stopped.client, stopped.client, stopped.fd, fuse.FILE)
    words = [sys.executable, "-c", READS, *map(str, numbers)]
    found = subprocess.run(words, check=True, capture_output=True, timeout=FAILS_AFTER_S)
    assert found.stdout == b"file\n"


def test_descriptor_that_becomes_such_a_file_is_described(stopped: Stopped) -> None:
    words = [sys.executable, "-c", TURNS, f"/proc/{stopped.client}/fd/{stopped.fd}"]
    found = subprocess.run(words, check=True, capture_output=True, timeout=FAILS_AFTER_S)
    assert found.stdout == b"unix\n"


def test_server_of_a_file_is_found(stopped: Stopped) -> None:
    shows = Path(f"/proc/{stopped.server}/fdinfo/{stopped.connection}").read_text()
    device = file_status(f"/proc/{stopped.client}/fd/{stopped.fd}").device
    # Before Linux 6.16 the kernel does not show whom a descriptor serves.
    expected = stopped.server if "fuse_connection" in shows else None
    assert fuse_server(os.minor(device)) == expected
    assert fuse_server(os.minor(device), [stopped.server]) == expected


def test_its_file_system_is_one_of_fuse(stopped: Stopped, tmp_path: Path) -> None:
    device = kernel_device(file_status(f"/proc/{stopped.client}/fd/{stopped.fd}").device)
    assert is_fuse(stopped.client, device)
    assert not is_fuse(stopped.client, device + 1000)
    assert not is_fuse(os.getpid(), kernel_device(os.stat("/").st_dev))
    # A process that is gone sees nothing.
    assert not is_fuse(2**22 + 1, device)


def test_no_process_serves_another_device(stopped: Stopped) -> None:
    assert fuse_server(0, [stopped.server]) is None


def test_file_status_is_that_of_stat(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    for each in (path, tmp_path, Path("/dev/null")):
        found, stat = file_status(str(each)), os.stat(each)
        device = stat.st_rdev or stat.st_dev
        assert found == (stat.st_ino, stat.st_mode, device, stat.st_dev)
    with pytest.raises(FileNotFoundError):
        file_status(str(tmp_path / "none"))
