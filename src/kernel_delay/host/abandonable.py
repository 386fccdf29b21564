"""A process that reads for this one what others supply: it is abandoned if it does not answer.

Memory and files of a measured process may be of a FUSE file system, whose server the process may
be itself. If the server does not answer, not even SIGKILL ends the wait
(fs/fuse/dev.c:request_wait_answer(), 5.14 to 6.18). So another process waits, and this one goes on.
"""

import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

READ_S = 2.0
"""How long one answer, or the next part of it, is waited for while the process is asleep."""

READS_S = 60.0
"""How long all that is asked for one process is waited for in one window, on a busy machine too."""

START_S = 120.0
"""How long the start of the process is waited for. It reads nothing that others supply yet."""

MOST_ABANDONED = 16
"""Processes that wait at the same time and are not waited for."""

# struct timeval: socket(7), SO_RCVTIMEO.
_TIME = struct.Struct("ll")

_RECEIVED_BYTES = 256 << 10

# A signal to all processes of a unit is the tool's to handle.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


T = TypeVar("T")


class LostError(Exception):
    """What was asked has no answer; the text says why."""


class Reader(NamedTuple):
    """A process that reads, the socket to it, and the process that started it."""

    pid: int
    socket: socket.socket
    parent: int


class Readers:
    """The process that runs a module, and what is known of those that were abandoned."""

    def __init__(self, module: str) -> None:
        """Start it when it is first asked. `module` calls begin()."""
        self.running: list[Reader] = []
        self._module = module
        self._abandoned: list[int] = []

    def reader(self) -> Reader:
        """Return the process that reads; start it if it does not run, and once more if it ends."""
        if self.running and self.running[0].parent == os.getpid():
            return self.running[0]
        try:
            return self._start()
        except (EOFError, ConnectionError):
            pass
        try:
            return self._start()
        except (EOFError, ConnectionError) as error:
            raise LostError("what reads it ended as it began") from error

    def _start(self) -> Reader:
        self.running.clear()
        self._abandoned[:] = [pid for pid in self._abandoned if not _has_ended(pid)]
        if len(self._abandoned) >= MOST_ABANDONED:
            raise LostError(f"{MOST_ABANDONED} processes that read do not answer")
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-I", "-m", self._module]
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
        reader = Reader(pid, ours, os.getpid())
        self.running.append(reader)
        try:
            Asked(reader, time.monotonic() + START_S, START_S).take(1)
        except TimeoutError as error:
            self.abandon(reader)
            raise LostError(f"what reads it did not begin in {START_S:g} s") from error
        except (EOFError, OSError):
            self.abandon(reader)
            raise
        return reader

    def abandon(self, reader: Reader) -> None:
        """Wait for it no longer. It ends as soon as it can."""
        self.running.clear()
        reader.socket.close()
        self._abandoned.append(reader.pid)
        with suppress(OSError):
            os.kill(reader.pid, signal.SIGKILL)


class Patience:
    """How long what is asked for one process is waited for; once one is late, never again."""

    def __init__(self, readers: Readers, on_lost: Callable[[str], None]) -> None:
        """Begin with all of the time. `on_lost` is called once, with why nothing is read."""
        self.lost: str | None = None
        self._readers = readers
        self._on_lost = on_lost
        self._left_s = READS_S

    def renew(self) -> None:
        """Begin a window."""
        self._left_s = READS_S

    def ask(self, exchange: Callable[["Asked"], T]) -> T | None:
        """Return what `exchange` does: it asks one thing. None if that has no answer in time."""
        if self.lost is not None:
            return None
        try:
            reader = self._readers.reader()
            started = time.monotonic()
            end = started + max(self._left_s, 0.001)
            try:
                return exchange(Asked(reader, end))
            except TimeoutError as error:
                self._readers.abandon(reader)
                if time.monotonic() >= end:
                    raise LostError(f"reads took longer than {READS_S:g} s") from error
                raise LostError(f"a read took longer than {READ_S:g} s") from error
            except (EOFError, OSError) as error:
                self._readers.abandon(reader)
                raise LostError("what reads it has ended") from error
            finally:
                self._left_s -= time.monotonic() - started
        except LostError as error:
            self.lost = str(error)
            self._on_lost(self.lost)
            return None


class Asked:
    """The process that reads, as long as it is asked one thing."""

    def __init__(self, reader: Reader, end: float, part_s: float = READ_S) -> None:
        """Wait until `end` of time.monotonic() at most, and `part_s` for each part of an answer."""
        self._reader, self._end, self._part_s = reader, end, part_s

    def send(self, request: bytes, *descriptors: int) -> None:
        """Ask for something, of open files."""
        socket.send_fds(self._reader.socket, [request], descriptors)

    def take(self, size: int) -> bytes:
        """Wait for so many bytes. Raises TimeoutError or EOFError if there are fewer."""
        content = bytearray()
        while len(content) < size:
            most = min(size - len(content), _RECEIVED_BYTES)
            got = self._receive(partial(self._reader.socket.recv, most))
            if not got:
                raise EOFError
            content += got
        return bytes(content)

    def _receive(self, call: Callable[[], T]) -> T:
        """Return what a call on the socket does. Raises TimeoutError if nothing comes.

        A process that can run, and has no CPU, waits for nobody's answer.
        """
        while True:
            wait_until(min(self._end, time.monotonic() + self._part_s), self._reader.socket)
            try:
                return call()
            except BlockingIOError as error:
                if time.monotonic() >= self._end or not _is_runnable(self._reader.pid):
                    raise TimeoutError from error


def _is_runnable(pid: int) -> bool:
    # Readers do without it.
    from kernel_delay.host.target import read_stat

    try:
        return read_stat(pid).state == "R"
    except OSError:
        return False


def wait_until(
    deadline: float, sent: socket.socket, options: Iterable[int] = (socket.SO_RCVTIMEO,)
) -> None:
    """Let a call on the socket fail with EAGAIN at that time.monotonic(): socket(7)."""
    left_us = max(1, round((deadline - time.monotonic()) * 1e6))
    for option in options:
        sent.setsockopt(socket.SOL_SOCKET, option, _TIME.pack(*divmod(left_us, 1_000_000)))


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def begin(calls: Iterable[str], capabilities: Iterable[str] = ()) -> socket.socket:
    """Become a process that reads; return where it is asked.

    It may wait forever. So nobody waits for it: it has no outputs, no terminal, and no files.
    """
    from kernel_delay.host import privileges

    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    asked = socket.socket(fileno=0)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    privileges.refuse_tracers()
    privileges.keep_nothing((*privileges.CALLS_OF_A_FILTER, *calls), capabilities)
    asked.sendall(b"\0")
    return asked
