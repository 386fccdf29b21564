"""Programs with an event loop whose rounds are long for as long as a file, the switch, is there.

A victim writes a line a round into a file: whether the switch was there, when the round began by
CLOCK_MONOTONIC, and how long it took, in ns. It calls srand48() where one begins, and lrand48()
where it ends.
"""

import ctypes
import fcntl
import mmap
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.verdicts.staging import spin, tell

# The thread polls so long between two rounds.
PAUSE_MS = 10

# What a round is made of, by the program itself: so much work, on either side of what is slow.
WORK_MS = 30

# How long what is slow takes.
SLOW_S = 0.1

# Between two times that a lock is held, and two looks at the switch when it is gone.
SHORT_S = 0.001
LOOK_S = 0.05

# Turns of what stops the victim.
TURN_S = 0.04

PAGE = 4096
FRESH_BYTES = 256 << 20
SYNCS = 400
READS = 1024
READ_BYTES = 64 << 20
BLOCK = 64 << 10
PIPE_BYTES = 256 << 10

Work = Callable[[bool], object]


class _Burner:
    """Work of the program itself, of which each part is the same."""

    def __init__(self) -> None:
        loops = 200_000
        lengths = []
        for _ in range(9):
            began_ns = time.thread_time_ns()
            self._loop(loops)
            lengths.append(time.thread_time_ns() - began_ns)
        self._loops_per_ms = loops * 1e6 / sorted(lengths)[4]

    def burn(self, milliseconds: float) -> None:
        self._loop(int(self._loops_per_ms * milliseconds))

    @staticmethod
    def _loop(loops: int) -> None:
        for _ in range(loops):
            pass


def _make_rounds(switch: str, lengths: str, slow: Work, prepare: Work = lambda is_on: None) -> None:
    """Work, do what is slow, and work, in each round; `prepare` in a round of its own before it."""
    burner = _Burner()
    libc = ctypes.CDLL("libc.so.6")
    quiet, _ = os.pipe()
    poll = select.poll()
    poll.register(quiet, select.POLLIN)
    file = os.open(lengths, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    tell()
    while True:
        is_on = os.path.exists(switch)
        prepare(is_on)
        poll.poll(PAUSE_MS)
        began_ns = time.monotonic_ns()
        libc.srand48(0)
        burner.burn(WORK_MS)
        slow(is_on)
        burner.burn(WORK_MS)
        libc.lrand48()
        took_ns = time.monotonic_ns() - began_ns
        poll.poll(0)
        os.write(file, b"%d %d %d\n" % (is_on, began_ns, took_ns))


def computing(switch: str, lengths: str) -> None:
    """It only computes: what makes it slow is outside."""
    _make_rounds(switch, lengths, lambda is_on: None)


def sleeping(switch: str, lengths: str) -> None:
    """It sleeps on a timer."""
    _make_rounds(switch, lengths, lambda is_on: time.sleep(SLOW_S) if is_on else None)


def locking(switch: str, lengths: str) -> None:
    """It wants a mutex of glibc's that another thread holds asleep."""
    libc = ctypes.CDLL("libc.so.6")
    mutex = ctypes.create_string_buffer(64)

    def hold() -> None:
        while True:
            is_on = os.path.exists(switch)
            if is_on:
                libc.pthread_mutex_lock(mutex)
                time.sleep(SLOW_S)
                libc.pthread_mutex_unlock(mutex)
            time.sleep(SHORT_S if is_on else LOOK_S)

    def lock(_: bool) -> None:
        libc.pthread_mutex_lock(mutex)
        libc.pthread_mutex_unlock(mutex)

    threading.Thread(target=hold, daemon=True).start()
    _make_rounds(switch, lengths, lock)


def waiting_for_thread(switch: str, lengths: str) -> None:
    """It wants a lock of Python's, whose owner the kernel does not know."""
    lock = threading.Lock()

    def hold() -> None:
        while True:
            is_on = os.path.exists(switch)
            if is_on:
                with lock:
                    time.sleep(SLOW_S)
            time.sleep(SHORT_S if is_on else LOOK_S)

    def take(_: bool) -> None:
        with lock:
            pass

    threading.Thread(target=hold, daemon=True).start()
    _make_rounds(switch, lengths, take)


def syncing(switch: str, lengths: str, path: str) -> None:
    """It writes, and waits until the disk has each block."""
    file = os.open(path, os.O_WRONLY)
    block = os.urandom(PAGE)

    def write(is_on: bool) -> None:
        for place in range(SYNCS):
            os.pwrite(file, block, place * PAGE)
            if is_on:
                os.fdatasync(file)

    _make_rounds(switch, lengths, write)


def reading_cold(switch: str, lengths: str, path: str) -> None:
    """It reads a file that is not in memory."""
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size

    def forget(is_on: bool) -> None:
        if is_on:
            os.posix_fadvise(file, 0, size, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file, 0, size, os.POSIX_FADV_RANDOM)

    def read(_: bool) -> None:
        for place in range(0, size, size // READS):
            os.pread(file, PAGE, place)

    _make_rounds(switch, lengths, read, forget)


def reading_directly(switch: str, lengths: str, path: str) -> None:
    """It reads from the disk, which its cgroup may use little of."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    block = mmap.mmap(-1, BLOCK)

    def read(_: bool) -> None:
        for place in range(2):
            os.preadv(file, [block], place * BLOCK)

    _make_rounds(switch, lengths, read)


def faulting(switch: str, lengths: str) -> None:
    """It touches memory that it gave back before the round."""
    memory = mmap.mmap(-1, FRESH_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    ones = bytes([1]) * (FRESH_BYTES // PAGE)

    def give_back(is_on: bool) -> None:
        if is_on:
            memory.madvise(mmap.MADV_DONTNEED)

    def touch(_: bool) -> None:
        memory[::PAGE] = ones

    _make_rounds(switch, lengths, touch, give_back)


def faulting_from_disk(switch: str, lengths: str, path: str) -> None:
    """It reads a mapped file that is not in memory."""
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size
    memory = mmap.mmap(file, size, prot=mmap.PROT_READ)
    memory.madvise(mmap.MADV_RANDOM)

    def forget(is_on: bool) -> None:
        if is_on:
            memory.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(file, 0, size, os.POSIX_FADV_DONTNEED)

    _make_rounds(switch, lengths, lambda _: memory[:: size // READS], forget)


def in_the_kernel(switch: str, lengths: str) -> None:
    """It has the kernel clear memory."""
    file = os.open("/dev/zero", os.O_RDONLY)
    memory = mmap.mmap(-1, READ_BYTES)

    def read(is_on: bool) -> None:
        for _ in range(8 if is_on else 0):
            os.readv(file, [memory])

    os.readv(file, [memory])
    _make_rounds(switch, lengths, read)


def having_children(switch: str, lengths: str) -> None:
    """It waits for a child that sleeps."""

    def run(is_on: bool) -> None:
        subprocess.run(["sleep", f"{SLOW_S if is_on else 0}"], check=True)

    _make_rounds(switch, lengths, run)


def flocking(switch: str, lengths: str, path: str) -> None:
    """It wants a lock on a file that another process holds."""
    file = os.open(path, os.O_RDWR)

    def lock(_: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(file, fcntl.LOCK_UN)

    _make_rounds(switch, lengths, lock)


def hold_file(switch: str, path: str) -> None:
    """Hold the lock, again and again."""
    file = os.open(path, os.O_RDWR)
    tell()
    while True:
        is_on = os.path.exists(switch)
        if is_on:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(SLOW_S)
            fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(SHORT_S if is_on else LOOK_S)


def asking_by_pipe(switch: str, lengths: str, requests: str, answers: str) -> None:
    """It asks a server through a pipe."""
    with open(requests, "wb", buffering=0) as sink, open(answers, "rb", buffering=0) as source:

        def ask(_: bool) -> None:
            sink.write(b"x")
            source.read(1)

        _make_rounds(switch, lengths, ask)


def serve_pipe(switch: str, requests: str, answers: str) -> None:
    """Answer; after a sleep while the switch is there."""
    tell()
    with open(requests, "rb", buffering=0) as source, open(answers, "wb", buffering=0) as sink:
        while source.read(1):
            _sleep_if(switch)
            sink.write(b"x")


def writing_to_reader(switch: str, lengths: str, path: str) -> None:
    """It writes more into a pipe than there is room for."""
    block = bytes(PIPE_BYTES)
    with open(path, "wb", buffering=0) as sink:

        def write(_: bool) -> None:
            left = memoryview(block)
            while left:
                left = left[sink.write(left) :]

        _make_rounds(switch, lengths, write)


def read_slowly(switch: str, path: str) -> None:
    """Read from a pipe; a little at a time while the switch is there."""
    tell()
    with open(path, "rb", buffering=0) as source:
        while source.read(BLOCK):
            if os.path.exists(switch):
                time.sleep(SLOW_S / 4)


def asking_by_socket(switch: str, lengths: str, path: str) -> None:
    """It asks a server through a Unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        _make_rounds(switch, lengths, lambda _: _ask(connection))


def serve_socket(switch: str, path: str) -> None:
    """Answer; after work on a CPU while the switch is there."""
    burner = _Burner()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        tell()
        connection, _ = listener.accept()
        while connection.recv(1):
            if os.path.exists(switch):
                burner.burn(SLOW_S * 1000)
            connection.send(b"x")


def asking_by_tcp(switch: str, lengths: str, port: int) -> None:
    """It asks a server by TCP."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        _make_rounds(switch, lengths, lambda _: _ask(connection))


def serve_tcp(switch: str) -> None:
    """Answer; after a sleep while the switch is there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tell(port=listener.getsockname()[1])
        connection, _ = listener.accept()
        # The victim ends first.
        with suppress(ConnectionError):
            while connection.recv(1):
                _sleep_if(switch)
                connection.send(b"x")


def relay(front: str, back: str) -> None:
    """Ask another server for each answer."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(back)
        _answer_each(front, lambda: _ask(asked))


def serve_relay(switch: str, path: str) -> None:
    """As serve_socket(), asleep."""
    _answer_each(path, lambda: _sleep_if(switch))


def _answer_each(path: str, prepare: Callable[[], object]) -> None:
    """Answer a client at a Unix socket, each time after `prepare`."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        tell()
        connection, _ = listener.accept()
        while connection.recv(1):
            prepare()
            connection.send(b"x")


def with_helper(switch: str, lengths: str, slow_ms: int) -> None:
    """It sleeps while a thread of its own works for it, and needs what that does."""
    begin, done = threading.Semaphore(0), threading.Semaphore(0)
    burner = _Burner()

    def help_out() -> None:
        while begin.acquire():
            until = time.monotonic() + SLOW_S
            while time.monotonic() < until:
                time.sleep(SLOW_S / 20)
                burner.burn(1)
            done.release()

    def sleep(is_on: bool) -> None:
        begin.release()
        if is_on:
            time.sleep(slow_ms / 1000)
        done.acquire()

    threading.Thread(target=help_out, daemon=True).start()
    _make_rounds(switch, lengths, sleep)


def asking_ahead(switch: str, lengths: str, requests: str, answers: str) -> None:
    """It sleeps while a server works for it, and reads the answer when that is there already."""
    with open(requests, "wb", buffering=0) as sink, open(answers, "rb", buffering=0) as source:

        def ask(is_on: bool) -> None:
            sink.write(b"x")
            if is_on:
                time.sleep(1.5 * SLOW_S)
            source.read(1)

        _make_rounds(switch, lengths, ask)


def serve_after_a_while(requests: str, answers: str) -> None:
    """Answer after a sleep, whatever the switch."""
    tell()
    with open(requests, "rb", buffering=0) as source, open(answers, "wb", buffering=0) as sink:
        while source.read(1):
            time.sleep(SLOW_S)
            sink.write(b"x")


def hog_by_turns() -> None:
    """Use a CPU, and sleep, by turns."""
    tell()
    while True:
        spin(SLOW_S / 2)
        time.sleep(SLOW_S / 2)


def stop_by_turns(pid: int) -> None:
    """Stop a process, and resume it, by turns."""
    tell()
    while True:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(TURN_S)
        os.kill(pid, signal.SIGCONT)
        time.sleep(TURN_S)


def freeze_by_turns(path: str) -> None:
    """Freeze a cgroup of version 2, and thaw it, by turns."""
    file = Path(path)
    tell()
    while True:
        file.write_text("1")
        time.sleep(TURN_S)
        file.write_text("0")
        time.sleep(TURN_S)


def _ask(connection: socket.socket) -> None:
    connection.send(b"x")
    connection.recv(1)


def _sleep_if(switch: str) -> None:
    if os.path.exists(switch):
        time.sleep(SLOW_S)
