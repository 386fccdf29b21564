"""The memory of other processes, read by a process of its own: memory_reader.py.

A read of /proc/PID/mem waits for the page (proc_pid_mem(5)). A page of a FUSE file comes from the
file's server, which the measured process may be itself. If the server does not answer, not even
SIGKILL ends the wait (fs/fuse/dev.c:request_wait_answer(), 5.14 to 6.18). The reader is abandoned
then, and this process goes on.
"""

import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

REQUEST = struct.Struct("<QQ")
"""An address and a size; /proc/PID/mem comes with it, open."""

ANSWER = struct.Struct("<Q")
"""The size of what was read, which follows."""

READ_S = 2.0
"""How long one read is waited for."""

READS_S = 10.0
"""How long the reads of one process are waited for in all, in one window."""

START_S = 10.0
"""How long the start of the reader is waited for, on a busy machine too."""

MOST_BYTES = 1 << 20
"""Of one read."""

MOST_ABANDONED = 16
"""Readers that wait at the same time and are not waited for."""

# The highest offset of a file.
_ADDRESSES = 1 << 63

_RECEIVED_BYTES = 256 << 10

# struct timeval: socket(7), SO_RCVTIMEO.
_TIME = struct.Struct("ll")


class LostError(Exception):
    """A read has no answer; the text says why."""


class _Reader(NamedTuple):
    """A process that reads, the socket to it, and the process that started it."""

    pid: int
    socket: socket.socket
    parent: int


_readers: list[_Reader] = []
_abandoned: list[int] = []


class Patience:
    """How long reads of one process's memory are waited for; once one is late, never again."""

    def __init__(self, on_lost: Callable[[str], None] = lambda text: None) -> None:
        """Begin with all of the time. `on_lost` is called once, with why nothing is read."""
        self._on_lost = on_lost
        self._left_s = READS_S
        self._is_lost = False

    def renew(self) -> None:
        """Begin a window."""
        self._left_s = READS_S

    def read(self, memory: int, address: int, size: int) -> bytes:
        """Read up to MOST_BYTES of that open memory; none where it can't be read in time."""
        if self._is_lost or not 0 <= address < _ADDRESSES or size <= 0:
            return b""
        try:
            reader = _reader()
            started = time.monotonic()
            limit_s = min(READ_S, max(self._left_s, 0.001))
            try:
                return _ask(reader, memory, address, min(size, MOST_BYTES), started + limit_s)
            except TimeoutError as error:
                _abandon(reader)
                if limit_s < READ_S:
                    raise LostError(f"reads took longer than {READS_S:g} s") from error
                raise LostError(f"a read took longer than {READ_S:g} s") from error
            except (EOFError, OSError) as error:
                _abandon(reader)
                raise LostError("what reads it has ended") from error
            finally:
                self._left_s -= time.monotonic() - started
        except LostError as error:
            self._is_lost = True
            self._on_lost(str(error))
            return b""


class MemoryFile:
    """The memory of one process; takes the right to ptrace(2) it."""

    def __init__(self, process: Path, patience: Patience) -> None:
        """Open the memory of `process`, a directory such as /proc/123. That reads nothing."""
        self._fd = os.open(process / "mem", os.O_RDONLY | os.O_CLOEXEC)
        self._patience = patience

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)

    def read(self, address: int, size: int) -> bytes:
        """Read up to `size` bytes; none where nothing is mapped or it can't be read in time."""
        return self._patience.read(self._fd, address, size)


def _ask(reader: _Reader, memory: int, address: int, size: int, deadline: float) -> bytes:
    socket.send_fds(reader.socket, [REQUEST.pack(address, size)], [memory])
    (got,) = ANSWER.unpack(_take(reader.socket, ANSWER.size, deadline))
    return bytes(_take(reader.socket, got, deadline)) if got else b""


def _take(sent: socket.socket, size: int, deadline: float) -> bytearray:
    content = bytearray()
    while len(content) < size:
        left_us = max(1, round((deadline - time.monotonic()) * 1e6))
        limit = _TIME.pack(*divmod(left_us, 1_000_000))
        sent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        try:
            got = sent.recv(min(size - len(content), _RECEIVED_BYTES))
        except BlockingIOError as error:
            raise TimeoutError from error
        if not got:
            raise EOFError
        content += got
    return content


def _reader() -> _Reader:
    """Return the process that reads; start it if it does not run, and once more if it ends."""
    if _readers and _readers[0].parent == os.getpid():
        return _readers[0]
    try:
        return _start()
    except (EOFError, ConnectionError):
        pass
    try:
        return _start()
    except (EOFError, ConnectionError) as error:
        raise LostError("what reads it ended as it began") from error


def _start() -> _Reader:
    _readers.clear()
    _abandoned[:] = [pid for pid in _abandoned if not _has_ended(pid)]
    if len(_abandoned) >= MOST_ABANDONED:
        raise LostError(f"{MOST_ABANDONED} processes that read memory do not answer")
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-m", "kernel_delay.host.memory_reader"]
    # It is abandoned at times: nobody who waits for the end of our outputs may wait for it.
    actions = [
        (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    with theirs:
        try:
            pid = os.posix_spawn(
                sys.executable, command, {}, file_actions=actions, setsid=True, setsigmask=()
            )
        except OSError as error:
            ours.close()
            raise LostError(f"what reads it can't be started: {error.strerror}") from error
    reader = _Reader(pid, ours, os.getpid())
    _readers.append(reader)
    try:
        _take(ours, 1, time.monotonic() + START_S)
    except TimeoutError as error:
        _abandon(reader)
        raise LostError(f"what reads it did not begin in {START_S:g} s") from error
    except (EOFError, OSError):
        _abandon(reader)
        raise
    return reader


def _abandon(reader: _Reader) -> None:
    """Wait for it no longer. It ends as soon as it can."""
    _readers.clear()
    reader.socket.close()
    _abandoned.append(reader.pid)
    with suppress(OSError):
        os.kill(reader.pid, signal.SIGKILL)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
