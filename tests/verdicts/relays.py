"""Chains of processes: each asks the next and waits for its answer; the last one answers late."""

import ctypes
import fcntl
import mmap
import os
import pty
import random
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.verdicts import fuse
from tests.verdicts.cgroups import cgroup, cpu_quota, join, unified
from tests.verdicts.files import big_file
from tests.verdicts.staging import CPU, Process, Role, running, spin, tell
from tests.verdicts.truth import Staged, cause

# How long the last one takes for an answer.
ANSWER_S = 0.05

# True besides, by the way that the first one asks, which is measured. Of no other way is anything.
ALSO = {
    # It sends a request on a socket, and sleeps in recv until the answer is there. Such a wait is
    # said to be for the peer, where the root is not known.
    "unix": ("wait_socket_receive",),
    "tcp": ("wait_socket_receive",),
    # It sleeps in flock() until the peer unlocks the file.
    "flock": ("wait_file_lock",),
    # Its read sleeps until the peer replies.
    "fuse": ("wait_fuse",),
    # The lock of the directory is the holder's or its own, and whoever has it waits for the reply.
    "inode": ("wait_kernel_lock", "wait_fuse"),
}


class Chain(NamedTuple):
    """The first, and the others, each of which the one before waits for."""

    client: Process
    others: Sequence[Process]

    @property
    def root(self) -> Process:
        """The last of them."""
        return self.others[-1]


class _Line:
    """One end of a connection, or of two pipes. `way`: how it polls before it reads, if it does."""

    def __init__(self, source: int, sink: int, way: str = "") -> None:
        self._source, self._sink, self._way = source, sink, way
        if way == "epoll":
            self._epoll = select.epoll()
            self._epoll.register(source, select.EPOLLIN)

    def ask(self) -> None:
        self.answer()
        self.wait()

    def answer(self) -> None:
        # The client ends first.
        with suppress(ConnectionError):
            os.write(self._sink, b"x")

    def wait(self) -> bool:
        try:
            if self._way == "epoll":
                self._epoll.poll()
            elif self._way == "select":
                select.select([self._source], [], [])
            return bool(os.read(self._source, 1))
        except ConnectionError:
            return False


class _Semaphores(_Line):
    """Two of them in memory that both processes have: sem_wait(3) sleeps on a futex."""

    def __init__(self, path: str, *, serves: bool) -> None:
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._libc = ctypes.CDLL(None)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        ends = [ctypes.c_void_p(address), ctypes.c_void_p(address + 64)]
        if serves:
            for each in ends:
                self._libc.sem_init(each, 1, 0)
        self._own, self._other = ends if serves else ends[::-1]

    def answer(self) -> None:
        self._libc.sem_post(self._other)

    def wait(self) -> bool:
        return not self._libc.sem_wait(self._own)


class _FileLock(_Line):
    """Whoever serves has a flock(2) while it works; whoever asks waits for that."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def ask(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        fcntl.flock(self._file, fcntl.LOCK_UN)
        # Whoever serves has it again by then.
        time.sleep(0.004)

    def answer(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)
        time.sleep(0.001)

    def wait(self) -> bool:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return True


class _FuseFile(_Line):
    """Asks by reading a file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY)

    def ask(self) -> None:
        # The server ends first.
        with suppress(OSError):
            os.pread(self._file, 1, 0)


class _FuseDirectory(_Line):
    """Asks by making a directory, with the kernel's lock of the one that it is in."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self) -> None:
        with suppress(OSError):
            os.mkdir(f"{self._path}/{os.getpid()}")


class _FuseServer(_Line):
    """Is asked by reads of its file, and by directories to be made."""

    def __init__(self, folder: str) -> None:
        os.mkdir(folder)
        self._fuse = fuse.mounted(folder)
        self._request: fuse.Request | None = None

    def wait(self) -> bool:
        while True:
            self._request = fuse.next_request(self._fuse)
            if self._request.operation in (fuse.READ, fuse.MKDIR):
                return True
            fuse.reply(self._fuse, self._request)

    def answer(self) -> None:
        assert self._request is not None
        fuse.reply(self._fuse, self._request)


def _kind_of(kinds: str, number: int) -> str:
    """How the process of that number is asked: `pipe+unix` is both by turns."""
    each = kinds.split("+")
    return each[(number - 1) % len(each)]


def _connect(kinds: str, folder: str, number: int) -> _Line:
    """Connect to the process of that number, which listens."""
    kind, _, way = _kind_of(kinds, number).partition("-")
    path = f"{folder}/{number}"
    if kind == "pipe":
        sink = os.open(f"{path}.requests", os.O_WRONLY)
        return _Line(os.open(f"{path}.answers", os.O_RDONLY), sink, way)
    if kind == "futex":
        return _Semaphores(path, serves=False)
    if kind == "flock":
        return _FileLock(path)
    if kind == "fuse":
        return _FuseFile(f"{path}/file")
    if kind == "inode":
        return _FuseDirectory(path)
    own = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
    own.connect(path if kind == "unix" else ("127.0.0.1", int(Path(path).read_text())))
    fd = own.detach()
    return _Line(fd, fd, way)


def _accept(kinds: str, folder: str, number: int) -> _Line:
    """Tell that it listens, and wait for who connects."""
    kind, _, way = _kind_of(kinds, number).partition("-")
    path = f"{folder}/{number}"
    line: _Line
    if kind == "pipe":
        for name in ("requests", "answers"):
            os.mkfifo(f"{path}.{name}")
        tell()
        source = os.open(f"{path}.requests", os.O_RDONLY)
        return _Line(source, os.open(f"{path}.answers", os.O_WRONLY), way)
    if kind in ("futex", "flock", "fuse", "inode"):
        if kind == "futex":
            Path(path).write_bytes(bytes(mmap.PAGESIZE))
            line = _Semaphores(path, serves=True)
        else:
            line = _FileLock(path) if kind == "flock" else _FuseServer(path)
        tell()
        return line
    with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as listener:
        listener.bind(path if kind == "unix" else ("127.0.0.1", 0))
        listener.listen()
        if kind == "tcp":
            Path(path).write_text(str(listener.getsockname()[1]))
        tell()
        fd = listener.accept()[0].detach()
    return _Line(fd, fd, way)


def root(kinds: str, folder: str, number: str, how: str) -> None:
    """Answer late."""
    with big_file(4 << 20) if how == "disk" else nullcontext("") as path:
        line = _accept(kinds, folder, int(number))
        works: dict[str, Callable[[float], object]] = {
            "timer": time.sleep,
            "select": partial(select.select, [], [], []),
            "disk": partial(_read, path),
            "terminal": _read_terminal,
        }
        work = works.get(how, spin)
        while line.wait():
            work(ANSWER_S)
            line.answer()


def _read(path: str, seconds: float) -> None:
    """Read from a disk that long."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    block = mmap.mmap(-1, 64 * 1024)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        os.preadv(file, [block], random.randrange(64) * len(block))
    os.close(file)


def _read_terminal(_: float) -> None:
    """Wait for who sits there."""
    os.read(pty.openpty()[1], 1)


def relay(kinds: str, folder: str, number: str) -> None:
    """Ask the next for each request."""
    further = _connect(kinds, folder, int(number) + 1)
    line = _accept(kinds, folder, int(number))
    while line.wait():
        further.ask()
        line.answer()


def client(kinds: str, folder: str) -> None:
    """Ask over and over."""
    line = _connect(kinds, folder, 1)
    tell()
    while True:
        line.ask()


@contextmanager
def chain(kinds: str, hops: int, how: str = "computes") -> Iterator[Chain]:
    """A client, and so many others behind one another."""
    cpu = CPU if how == "runnable" else None
    # Who only waits gets a CPU at once, however busy the machine is.
    waits = how not in ("computes", "runnable", "throttled")
    within = ("chrt", "-f", "1") if waits else ()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        for number in range(1, hops + 1):
            if _kind_of(kinds, number) in ("fuse", "inode"):
                stack.callback(fuse.unmount, f"{folder}/{number}")

        def start(role: Role, *arguments: object, name: str, cpu: int | None = None) -> Process:
            words = (kinds, folder, *arguments)
            return stack.enter_context(running(role, *words, name=name, within=within, cpu=cpu))

        others = [
            start(root, hops, how, name="root", cpu=cpu),
            *(start(relay, each, name=f"relay-{each}") for each in range(hops - 1, 0, -1)),
        ]
        if "inode" in kinds:
            start(client, name="holder")
        asking = start(client, name="client")
        yield Chain(asking, others[::-1])


@contextmanager
def staged(kinds: str, hops: int, how: str) -> Iterator[Staged]:
    """The chain, and what is true of it: on a busy machine a root that computes may have no CPU."""
    with ExitStack() as stack:
        relays = stack.enter_context(chain(kinds, hops, how))
        pid = relays.root.pid
        said = {
            "timer": ("on a timer",),
            "select": ("on a timer",),
            "disk": ("a disk",),
            "terminal": ("a terminal",),
        }
        names: tuple[object, ...] = (pid, *said.get(how, ()))
        if how == "stopped":
            os.kill(pid, signal.SIGSTOP)
            names = (pid, "was stopped")
        elif how == "stopper":
            stopper = stack.enter_context(running(stops, pid, name="stopper"))
            names = (pid, "was stopped by", stopper.pid)
        elif how == "throttled":
            group = stack.enter_context(cpu_quota(10_000, 100_000))
            join(group, pid)
            names = (pid, f"was throttled by the quota of /{group.name}")
        elif how == "frozen":
            group = stack.enter_context(cgroup(unified()))
            join(group, pid)
            (group / "cgroup.freeze").write_text("1")
            names = (pid, f"was frozen by the cgroup {group}")
        elif how == "runnable":
            hog = stack.enter_context(running(uses_cpu, within=("chrt", "-f", "1"), cpu=CPU))
            names = (pid, "had no CPU", hog.pid)
        # No cgroup can be removed before.
        stack.callback(os.kill, pid, signal.SIGKILL)
        # The last one that is known, where the root is not, is of the chain too.
        also = ("wait_chain_end", *ALSO.get(_kind_of(kinds, 1), ()))
        truth = cause("wait_chain", names=names, also=also)
        yield Staged(relays.client.pid, truth, options=("--chains",))


def uses_cpu() -> None:
    tell()
    spin()


def stops(pid: int) -> None:
    """Stop a process most of the time."""
    tell()
    while True:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.4)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)
