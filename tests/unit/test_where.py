"""Where threads stand: what a call waits for, who has that, and how it is printed."""

import ctypes
import errno
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from msgspec import structs

from kernel_delay.capture.sleep_files import find_files
from kernel_delay.errors import NoInputError, UnavailableError
from kernel_delay.host.open_files import watched_by_epoll
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.preflight import monotonic_offset_ns
from kernel_delay.host.target import PROC, ProcessTarget, read_comm
from kernel_delay.reporters.layout import IN_A_PIPE, Layout
from kernel_delay.reporters.where import MOST_DEADLOCKS, MOST_OWNERS, render
from kernel_delay.where import (
    Held,
    Holder,
    ProcessPosition,
    Relation,
    State,
    ThreadPosition,
    UserFrame,
    Where,
    files,
    standing,
)
from kernel_delay.where import calls as calls_module
from kernel_delay.where import look as looking
from kernel_delay.where import process as process_module
from kernel_delay.where.calls import (
    Call,
    Calls,
    Waited,
    arguments_of,
    with_files,
)
from kernel_delay.where.files import Files
from kernel_delay.where.look import deadlocks
from kernel_delay.where.mutexes import mutex_owner, shares_memory
from kernel_delay.where.process import Process
from kernel_delay.where.standing import Standing, StandingThread, at_least_ns, state_of, stop_signal

ADDRESS = 0x1000
OWNER = 71
NAMES = {OWNER: (7071, "owner"), 72: (7072, "waiter")}

FUTEX_WAIT_PRIVATE = 128
FUTEX_LOCK_PI_PRIVATE = 134


def mutex(
    *, owner: int = OWNER, users: int = 1, kind: int = 0, count: int = 0, link: int = 0
) -> bytes:
    """struct __pthread_mutex_s that is locked and waited for."""
    return struct.pack("=IIIIIIQQ", 2, count, owner, users, kind, 0, link, link)


@pytest.mark.parametrize(
    ("content", "owner"),
    [
        (mutex(), OWNER),
        (mutex(kind=1, count=2), OWNER),
        (mutex(kind=2), OWNER),
        (mutex(kind=3), OWNER),
        (mutex(kind=0x100), OWNER),
        (mutex(users=0), 0),
        (mutex(count=2), 0),
        (mutex(kind=1), 0),
        (mutex(kind=16), 0),
        (mutex(link=ADDRESS), 0),
        (mutex()[:20], 0),
        (b"", 0),
    ],
)
def test_owner_is_that_of_a_glibc_mutex_alone(content: bytes, owner: int) -> None:
    assert mutex_owner(content, compat=False) == owner


@pytest.mark.parametrize(
    ("kind", "is_shared", "owner"),
    [(0x80, True, OWNER), (0x80, False, 0), (0, True, 0), (0x90, True, 0)],
)
def test_mutex_of_several_processes_is_waited_for_as_such(
    kind: int, is_shared: bool, owner: int
) -> None:
    assert mutex_owner(mutex(kind=kind), compat=False, is_shared=is_shared) == owner


@pytest.mark.parametrize("is_private", [True, False])
def test_only_who_shares_a_mutex_may_own_it_elsewhere(
    is_private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a child has of its parent's mutexes is a copy, with the parent's thread in it."""
    monkeypatch.setattr(
        calls_module, "shares_memory", lambda pid, address, tid: tid == os.getppid()
    )
    memory = {ADDRESS: mutex(owner=os.getppid(), kind=0 if is_private else 0x80)}
    operation = FUTEX_WAIT_PRIVATE if is_private else 0
    waited = calls(memory, names={PID: (PID, "child")}).waited(call("futex", ADDRESS, operation, 2))
    owners = [] if is_private else [os.getppid()]
    assert [holder.tid for holder in waited.holders] == owners


def test_memory_is_shared_with_who_has_it_mapped() -> None:
    with mmap.mmap(-1, mmap.PAGESIZE) as shared, subprocess.Popen(["sleep", "600"]) as other:
        held = ctypes.c_char.from_buffer(shared)
        address = ctypes.addressof(held)
        del held
        try:
            assert shares_memory(PID, address, PID)
            assert not shares_memory(PID, address, other.pid)
            assert not shares_memory(PID, 0, PID)
        finally:
            other.kill()


def test_owner_of_a_32_bit_mutex_is_elsewhere() -> None:
    content = struct.pack("=IIIII", 2, 0, OWNER, 0, 1) + bytes(20)
    assert mutex_owner(content, compat=True) == OWNER


PID, TID = os.getpid(), threading.get_native_id()


def calls(
    memory: Mapping[int, bytes],
    pid: int = PID,
    pointers: Mapping[int, int] | None = None,
    ahead_ns: int | None = 0,
    names: Mapping[int, tuple[int, str]] = NAMES,
) -> Calls:
    def read(address: int, size: int) -> bytes:
        return memory.get(address, b"")[:size]

    return Calls(pid, Files(pid, TID), read, names, pointers or {}, ahead_ns)


def named(waited: Waited) -> Waited:
    """What this process waits for, with what its descriptors are."""
    keys = [each.key for each in waited.descriptors if each.key is not None]
    unix_sockets = UnixSockets()
    found = find_files(dict.fromkeys(keys, (TID, "poll")), unix_sockets)
    unix_sockets.close()
    return with_files(waited, Files(PID, TID), found)


def call(name: str, *arguments: int) -> Call:
    return Call(name, (*arguments, 0, 0, 0, 0, 0, 0)[:6], compat=False)


def test_mutex_names_its_owner() -> None:
    waited = calls({ADDRESS: mutex()}).waited(call("futex", ADDRESS, FUTEX_WAIT_PRIVATE, 2))
    assert waited == Waited("the mutex at 0x1000", (Holder("owner", 7071, "owner"),))


def test_owner_outside_of_the_process_is_not_named() -> None:
    """Whatever else looks like a mutex has no thread's id there."""
    waited = calls({ADDRESS: mutex(owner=5)}).waited(call("futex", ADDRESS, FUTEX_WAIT_PRIVATE, 2))
    assert waited == Waited("the futex at 0x1000")


@pytest.mark.parametrize("value", [0, 1, 3])
def test_other_futexes_have_no_owner(value: int) -> None:
    waited = calls({ADDRESS: mutex()}).waited(call("futex", ADDRESS, FUTEX_WAIT_PRIVATE, value))
    assert waited == Waited("the futex at 0x1000")


def test_pi_mutex_has_its_owner_in_the_futex() -> None:
    memory = {ADDRESS: struct.pack("=I", OWNER | 1 << 31)}
    waited = calls(memory).waited(call("futex", ADDRESS, FUTEX_LOCK_PI_PRIVATE))
    assert waited == Waited("the PI mutex at 0x1000", (Holder("owner", 7071, "owner"),))


def test_pi_mutex_may_have_an_owner_in_another_process() -> None:
    """Where the process numbers threads as we do."""
    memory = {ADDRESS: struct.pack("=I", os.getpid())}
    asked = call("futex", ADDRESS, FUTEX_LOCK_PI_PRIVATE)
    (owner,) = calls(memory, names={TID: (TID, "waits")}).waited(asked).holders
    assert (owner.relation, owner.tid) == ("owner", os.getpid())
    assert calls(memory).waited(asked).holders == ()


FUTEX_WAIT_SHARED = 0
FUTEX_WAIT_BITSET_SHARED = 9 | 0x100


@pytest.mark.parametrize("operation", [FUTEX_WAIT_SHARED, FUTEX_WAIT_BITSET_SHARED])
def test_join_waits_for_the_end_of_its_thread(operation: int) -> None:
    joins = call("futex", ADDRESS, operation, OWNER)
    waited = calls({}, pointers={OWNER: ADDRESS - 720}).waited(joins)
    assert waited == Waited("the end of thread owner (7071)", (Holder("child", 7071, "owner"),))


@pytest.mark.parametrize(
    ("operation", "pointer"),
    [(FUTEX_WAIT_SHARED, 0x7F0000), (FUTEX_WAIT_SHARED, 0), (FUTEX_WAIT_PRIVATE, ADDRESS)],
)
def test_other_futex_with_the_value_of_a_tid_is_one(operation: int, pointer: int) -> None:
    """In a container TIDs are small, as the values of locks that processes share."""
    memory = {ADDRESS: struct.pack("=I", OWNER)}
    looked = calls(memory, pointers={OWNER: pointer})
    waited = looked.waited(call("futex", ADDRESS, operation, OWNER))
    assert waited == Waited("the futex at 0x1000")


def test_mutex_that_is_waited_for_until_a_moment_names_its_owner() -> None:
    waits = call("futex", ADDRESS, FUTEX_WAIT_PRIVATE | FUTEX_WAIT_BITSET_SHARED, 2, 0)
    waited = calls({ADDRESS: mutex()}).waited(waits)
    assert waited == Waited("the mutex at 0x1000", (Holder("owner", 7071, "owner"),))


@pytest.mark.parametrize(
    ("compat", "name", "content"),
    [
        (False, "futex", struct.pack("=qq", 2, 500_000_000)),
        (True, "futex_time64", struct.pack("=qq", 2, 500_000_000)),
        (True, "futex", struct.pack("=ii", 2, 500_000_000)),
    ],
)
def test_futex_has_its_timeout(compat: bool, name: str, content: bytes) -> None:
    waits = structs.replace(call(name, 0, FUTEX_WAIT_PRIVATE, 0, ADDRESS), compat=compat)
    found = named(calls({ADDRESS: content}).waited(waits))
    assert found.words == "the futex at 0x0, or a time-out of 2.50 s"
    assert found.timeout_ns == 2_500_000_000


@pytest.mark.parametrize(
    ("operation", "clock", "words"),
    [
        (9, time.CLOCK_MONOTONIC, "the futex"),
        (9 | 0x100, time.CLOCK_REALTIME, "the futex"),
        (FUTEX_LOCK_PI_PRIVATE, time.CLOCK_REALTIME, "the PI mutex"),
    ],
)
def test_futex_until_a_moment_has_what_is_left(operation: int, clock: int, words: str) -> None:
    memory = {ADDRESS: struct.pack("=qq", int(time.clock_gettime(clock)) + 7_200_000, 0)}
    found = named(calls(memory).waited(call("futex", 0, operation, 0, ADDRESS))).words
    assert found is not None
    assert found.startswith(f"{words} at 0x0, or a time-out 83 d ")
    assert found.endswith(" from now")


def test_time_of_another_time_namespace_is_taken_off() -> None:
    day_s = 86_400
    memory = {ADDRESS: struct.pack("=qq", int(time.monotonic()) + 3 * day_s + 3600, 0)}
    waits = call("futex", 0, 9, 0, ADDRESS)
    waited = calls(memory, ahead_ns=day_s * 1_000_000_000).waited(waits)
    assert waited.timeout_ns is not None
    assert 2 * day_s < waited.timeout_ns / 1e9 < 2 * day_s + 3601
    assert calls(memory, ahead_ns=None).waited(waits).timeout_ns is None


def test_monotonic_offset_of_this_process_is_known() -> None:
    assert monotonic_offset_ns(PROC / str(PID)) == 0


@pytest.mark.parametrize("operation", [0, 9, 6])
def test_time_without_end_is_no_timeout(operation: int) -> None:
    memory = {ADDRESS: struct.pack("=qq", 2**63 - 1, 0)}
    assert calls(memory).waited(call("futex", 0, operation, 0, ADDRESS)).timeout_ns is None


class Opened(NamedTuple):
    """Descriptors, and what is said of each."""

    words: dict[str, str]
    fds: dict[str, int]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Descriptors of this process, of each kind."""
    words, fds = {}, {}
    own = f"{read_comm(PROC / str(PID))} ({PID})"
    with ExitStack() as stack:

        def add(kind: str, opened: int | socket.socket, said: str) -> None:
            fds[kind] = opened if isinstance(opened, int) else opened.fileno()
            words[kind] = f"fd {fds[kind]} ({said})"
            close = os.close if isinstance(opened, int) else socket.socket.close
            stack.callback(close, opened)  # type: ignore[arg-type]

        file, fifo, path = tmp_path / "a file", tmp_path / "fifo", tmp_path / "a.sock"
        file.touch()
        os.mkfifo(fifo)
        add("file", os.open(file, os.O_RDONLY), str(file))
        add("eventfd", os.eventfd(0), "eventfd")
        add("pidfd", os.pidfd_open(PID), f"pidfd; process: {own}")
        add("fifo", os.open(fifo, os.O_RDWR), f"the FIFO {fifo}; writer: {own}")
        add("lone FIFO", os.open(fifo, os.O_RDONLY), f"the FIFO {fifo}; writer: {own}")
        reads, writes = os.pipe()
        add("pipe to read", reads, f"a pipe; writer: {own}")
        add("pipe to write", writes, f"a pipe; reader: {own}")
        reads, writes = os.pipe()
        os.close(writes)
        add("broken pipe", reads, "a pipe whose writer is not known")
        listener = socket.create_server(("127.0.0.1", 0))
        at = f"127.0.0.1:{listener.getsockname()[1]}"
        add("listener", listener, f"TCP {at}")
        client = socket.create_connection(listener.getsockname())
        add("waits for accept", client, f"TCP {text(client)} to {at}; peer: {own}")
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen()
        add("Unix listener", server, f"Unix socket {path}")
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(path))
        accepted, _ = server.accept()
        add("Unix client", client, f"a Unix socket to {path}; peer: {own}")
        add("accepted", accepted, f"Unix socket {path}; peer: {own}")
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            pair = socket.socketpair(type=kind)
            add(f"pair {kind}", pair[0], f"a Unix socket; peer: {own}")
            add(f"other {kind}", pair[1], f"a Unix socket; peer: {own}")
        netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
        netlink.bind((0, 0))
        add("netlink", netlink, "a netlink socket")
        yield Opened(words, fds)


def text(connection: socket.socket) -> str:
    host, port = connection.getsockname()
    return f"{host}:{port}"


def test_descriptors_have_their_kind_and_other_end(opened: Opened) -> None:
    found = {
        kind: named(calls({}).waited(call("write" if "write" in kind else "read", fd))).words
        for kind, fd in opened.fds.items()
    }
    assert found == opened.words


def test_descriptor_that_is_closed_has_its_number() -> None:
    assert named(calls({}).waited(call("read", 10_000))).words == "fd 10000"


def test_polled_descriptors_are_named(opened: Opened) -> None:
    file, event = opened.fds["file"], opened.fds["eventfd"]
    memory = {ADDRESS: struct.pack("=ihhihhihh", file, 1, 0, -1, 1, 0, event, 1, 0)}
    waited = named(calls(memory).waited(call("poll", ADDRESS, 3, 1000)))
    assert (
        waited.words
        == f"{opened.words['file']}, {opened.words['eventfd']}, or a time-out of 1.00 s"
    )


def test_poll_whose_array_is_not_read_is_of_unknown_ones() -> None:
    """As if a userfaultfd handler is to fill its page."""
    assert calls({}).waited(call("poll", ADDRESS, 3, 1000)) == Waited()


NO_TIMEOUT = 2**32 - 1


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        (call("poll", 0, 0, 1500), "no descriptor, or a time-out of 1.50 s"),
        (call("poll", 0, 0, NO_TIMEOUT), "no descriptor"),
        (call("poll", 3 * ADDRESS, 1, 1500), "no descriptor, or a time-out of 1.50 s"),
        (call("ppoll", 0, 0, ADDRESS), "no descriptor, or a time-out of 2.25 s"),
        (call("ppoll", 0, 0, 0), "no descriptor"),
        (call("select", 0, 0, 0, 0, ADDRESS), "no descriptor, or a time-out of 252 s"),
        (call("pselect6", 0, 0, 0, 0, ADDRESS), "no descriptor, or a time-out of 2.25 s"),
        (call("pause"), "a signal that has a handler"),
        (call("rt_sigtimedwait", 4 * ADDRESS), "the signal SIGUSR1"),
        (call("rt_sigtimedwait", 5 * ADDRESS), "any signal"),
        (call("rt_sigtimedwait", 6 * ADDRESS), "no signal"),
        (call("rt_sigtimedwait", 2 * ADDRESS), "one of the signals SIGINT, SIGTERM, SIGRTMIN+1"),
        (
            call("rt_sigtimedwait", 2 * ADDRESS, 0, ADDRESS),
            "one of the signals SIGINT, SIGTERM, SIGRTMIN+1, or a time-out of 2.25 s",
        ),
    ],
)
def test_timeouts_and_signals_are_said(waits: Call, words: str) -> None:
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGRTMIN + 1)
    memory = {
        ADDRESS: struct.pack("=qq", 2, 250_000_000),
        2 * ADDRESS: struct.pack("=Q", sum(1 << number - 1 for number in signals)),
        3 * ADDRESS: struct.pack("=ihh", -1, 1, 0),
        4 * ADDRESS: struct.pack("=Q", 1 << signal.SIGUSR1 - 1),
        5 * ADDRESS: b"\xff" * 8,
        6 * ADDRESS: struct.pack("=Q", 1 << signal.SIGKILL - 1),
    }
    assert named(calls(memory).waited(waits)).words == words


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        (call("ppoll", 0, 0, ADDRESS), "no descriptor, or a time-out of 2.25 s"),
        (call("ppoll_time64", 0, 0, 2 * ADDRESS), "no descriptor, or a time-out of 3.25 s"),
        (call("_newselect", 0, 0, 0, 0, ADDRESS), "no descriptor, or a time-out of 252 s"),
        (
            call("pselect6_time64", 0, 0, 0, 0, 2 * ADDRESS),
            "no descriptor, or a time-out of 3.25 s",
        ),
        (call("rt_sigtimedwait", 0, 0, ADDRESS), "a signal, or a time-out of 2.25 s"),
        (call("nanosleep", ADDRESS), "a sleep of 2.25 s"),
        (call("clock_nanosleep_time64", 1, 0, 2 * ADDRESS), "a sleep of 3.25 s"),
    ],
)
def test_timeouts_of_32_bit_programs_are_said(waits: Call, words: str) -> None:
    memory = {
        ADDRESS: struct.pack("=ii", 2, 250_000_000),
        2 * ADDRESS: struct.pack("=qq", 3, 250_000_000),
    }
    assert named(calls(memory).waited(structs.replace(waits, compat=True))).words == words


def test_select_of_i386_has_its_arguments_in_memory() -> None:
    select_of_i386 = structs.replace(call("select", ADDRESS), compat=True)
    assert calls({}).waited(select_of_i386) == Waited()


def test_selected_descriptors_are_those_of_all_sets(opened: Opened) -> None:
    fds = opened.fds["file"], opened.fds["eventfd"]
    memory = {
        ADDRESS: (1 << fds[0]).to_bytes(128, "little"),
        ADDRESS + 128: (1 << fds[1]).to_bytes(128, "little"),
    }
    arguments = max(fds) + 1, ADDRESS, ADDRESS + 128, 0
    waited = named(calls(memory).waited(call("select", *arguments)))
    assert waited.words == f"{opened.words['file']}, {opened.words['eventfd']}"


def test_epoll_has_what_it_watches_and_who_is_there(opened: Opened) -> None:
    kinds = "Unix client", "eventfd"
    with select.epoll() as epoll:
        for kind in kinds:
            epoll.register(opened.fds[kind], select.EPOLLIN)
        waited = named(calls({}).waited(call("epoll_wait", epoll.fileno(), ADDRESS, 10, 2**32 - 1)))
        start = f"epoll fd {epoll.fileno()}, which watches "
    assert waited.words is not None
    assert waited.words.startswith(start)
    assert set(waited.words.removeprefix(start).split(", ")) == {opened.words[k] for k in kinds}
    assert [(each.relation, each.tid) for each in waited.holders] == [("peer", PID)]


def test_epoll_of_many_is_read_once_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of a server wait for the same one, and the kernel goes through all each time."""
    reads = []

    def watched(process: Path, fd: int, most_bytes: int) -> list[int]:
        reads.append(fd)
        return watched_by_epoll(process, fd, most_bytes)

    monkeypatch.setattr(files, "watched_by_epoll", watched)
    with ExitStack() as stack:
        epoll = stack.enter_context(select.epoll())
        event = os.eventfd(0)
        stack.callback(os.close, event)
        for _ in range(1000):
            copy = os.dup(event)
            stack.callback(os.close, copy)
            epoll.register(copy, select.EPOLLIN)
        looked = calls({})
        for _ in range(30):
            waited = looked.waited(call("epoll_wait", epoll.fileno(), ADDRESS, 10, 0))
    assert len(reads) == 1
    assert len(waited.descriptors) + waited.more == 1000


def test_relative_sleep_has_its_length() -> None:
    memory = {ADDRESS: struct.pack("=qq", 2, 500_000_000)}
    assert calls(memory).waited(call("nanosleep", ADDRESS)).words == "a sleep of 2.50 s"


def test_absolute_sleep_has_what_is_left() -> None:
    memory = {ADDRESS: struct.pack("=qq", int(time.monotonic()) + 7_200_000, 0)}
    waited = calls(memory).waited(call("clock_nanosleep", time.CLOCK_MONOTONIC, 1, ADDRESS))
    assert waited.words is not None
    assert waited.words.startswith("a moment 83 d ")


def test_path_of_a_call_is_read() -> None:
    memory = {ADDRESS: b"/mnt/nfs/\xff\0rest"}
    assert calls(memory).waited(call("openat", 0, ADDRESS)).words == "/mnt/nfs/\\xff"


def test_child_that_is_waited_for_is_named() -> None:
    comm = Path("/proc/self/comm").read_text().strip()
    waited = calls({}).waited(call("wait4", os.getpid()))
    assert waited.holders == (Holder("child", os.getpid(), comm),)


@pytest.mark.parametrize("name", ["read", "poll", "select", "epoll_wait", "futex", "openat"])
def test_memory_that_is_gone_is_no_error(name: str) -> None:
    calls({}).waited(call(name, 2**64 - 1, 2**64 - 1, 2**64 - 1, 2**64 - 1))


def test_arguments_are_in_the_registers_of_the_abi() -> None:
    registers = tuple(range(33))
    if os.uname().machine == "x86_64":
        assert arguments_of(registers, compat=False) == (14, 13, 12, 7, 9, 8)
        assert arguments_of(registers, compat=True) == (5, 11, 12, 13, 14, 4)
    else:
        assert arguments_of(registers, compat=False) == (0, 1, 2, 3, 4, 5)


STANDING = StandingThread(
    tid=10,
    process=10,
    own_tid=10,
    comm="worker",
    task_state=1,
    on_cpu=False,
    cpu=1,
    switches=5,
    jobctl=0,
    thread_pointer=0,
    is_frozen=False,
    is_throttled=False,
    is_kernel_worker=False,
    off_cpu_ns=3_000,
    queued_ns=7,
    syscall=None,
    compat=False,
    registers=None,
    kernel=(),
    lock=None,
    blocks_readers=False,
)


@pytest.mark.parametrize(
    ("fields", "state", "since_ns"),
    [
        ({}, "sleeping", 3_000),
        ({"task_state": 2}, "uninterruptible", 3_000),
        ({"task_state": 0x102}, "uninterruptible", 3_000),
        ({"task_state": 0}, "runnable", 7),
        ({"task_state": 0, "is_throttled": True}, "throttled", 3_000),
        ({"is_throttled": True}, "sleeping", 3_000),
        ({"task_state": 4}, "stopped", 3_000),
        ({"task_state": 8}, "traced", 3_000),
        ({"is_frozen": True}, "frozen", 3_000),
        ({"task_state": 0x80}, "exited", None),
        ({"on_cpu": True}, "running", None),
    ],
)
def test_state_is_the_kernels(
    fields: dict[str, object], state: State, since_ns: int | None
) -> None:
    thread = structs.replace(STANDING, **fields)
    assert state_of(thread) == state
    assert at_least_ns(thread, state) == since_ns


class FakeStanding:
    """In place of the kernel's records: one thread of each process, which does not run."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def threads(self) -> tuple[StandingThread, ...]:
        return tuple(
            structs.replace(STANDING, tid=pid, process=pid, own_tid=pid) for pid in self._pids
        )


@pytest.fixture
def exited() -> ProcessTarget:
    with subprocess.Popen(["true"]) as process:
        pass
    return ProcessTarget(process.pid, "true", None)


def test_process_that_exits_meanwhile_is_left_out(
    monkeypatch: pytest.MonkeyPatch, exited: ProcessTarget
) -> None:
    monkeypatch.setattr(looking, "Standing", FakeStanding)
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            other = ProcessTarget(process.pid, "sleep", None)
            found = looking.look([exited, other])
            assert [each.pid for each in found.processes] == [process.pid]
        finally:
            process.kill()
    with pytest.raises(NoInputError, match="have exited"):
        looking.look([exited])


def test_memory_that_is_gone_is_that_of_an_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    monkeypatch.setattr(process_module, "ProcessMemory", gone)
    with pytest.raises(NoInputError, match="has exited"):
        Process(ProcessTarget(PID, "own", None), reads=True, source=False)


def test_exit_before_loading_is_no_namespace_error(
    monkeypatch: pytest.MonkeyPatch, exited: ProcessTarget
) -> None:
    def unknown(pid: int) -> None:
        raise UnavailableError(f"process {pid} has another number")

    monkeypatch.setattr(standing, "find_process", unknown)
    with pytest.raises(NoInputError, match="have exited"):
        Standing([exited.pid])
    with pytest.raises(UnavailableError):
        Standing([exited.pid, PID])


def test_stop_signal_has_its_name() -> None:
    assert stop_signal(structs.replace(STANDING, jobctl=0x20013)) == "SIGSTOP"
    assert stop_signal(STANDING) is None


def position(tid: int, name: str = "worker", **fields: object) -> ThreadPosition:
    thread = ThreadPosition(tid, name, "sleeping", 2_500_000_000, 0, syscall="futex")
    return structs.replace(thread, **fields)


def owned_by(tid: int) -> tuple[Holder, ...]:
    return (Holder("owner", tid, "worker"),)


def test_only_threads_in_the_circle_are_deadlocked() -> None:
    threads = [
        position(1, holders=owned_by(2)),
        position(2, holders=owned_by(3)),
        position(3, holders=owned_by(2)),
        position(4, holders=owned_by(5)),
        position(5),
        position(6, holders=(Holder("peer", 6, "worker"),)),
    ]
    assert deadlocks(threads) == ((2, 3),)


def test_thread_that_waits_for_itself_is_deadlocked() -> None:
    assert deadlocks([position(1, holders=owned_by(1))]) == ((1,),)


def test_long_chain_of_owners_is_followed_in_linear_time() -> None:
    count = 30_000
    chain = [position(tid, holders=owned_by(tid + 1)) for tid in range(1, count)]
    started = time.process_time()
    assert deadlocks(chain) == ()
    # The last one's owner is the first: all are one circle.
    circle = (position(count, holders=owned_by(1)), *reversed(chain))
    assert deadlocks(circle) == ((count, *range(1, count)),)
    assert time.process_time() - started < 5


def test_circle_begins_with_the_thread_listed_first() -> None:
    threads = [position(tid, holders=owned_by(owner)) for tid, owner in ((1, 4), (3, 4), (4, 3))]
    assert deadlocks(threads) == ((3, 4),)


def test_lines_about_owners_and_deadlocks_are_bounded() -> None:
    chain = [position(tid, holders=owned_by(tid + 1)) for tid in range(1, 1000)]
    lines = render(answer(*chain), IN_A_PIPE).splitlines()
    assert sum("waits for a lock of" in line for line in lines) == MOST_OWNERS
    assert "# Locks of 983 other owners keep 983 threads waiting: see the threads below." in lines
    pairs = [position(tid, holders=owned_by(tid ^ 1)) for tid in range(2, 2002)]
    lines = render(answer(*pairs), IN_A_PIPE).splitlines()
    assert sum(line.startswith("# DEADLOCK") for line in lines) == MOST_DEADLOCKS
    assert "# 984 more deadlocks." in lines
    ring = (*chain, position(1000, holders=owned_by(1)))
    first, *_ = render(answer(*ring), IN_A_PIPE).splitlines()
    assert first.endswith(", and so on through 984 more threads.")


FRAME = UserFrame(0x7F00, "a_function_with_quite_a_long_name" * 3, 3, "/usr/lib/libc.so.6")


def answer(*threads: ThreadPosition, **fields: object) -> Where:
    process = ProcessPosition(10, "worker", ("/usr/bin/worker", "--flag"), threads)
    return Where((structs.replace(process, **fields),), deadlocks(threads))


def test_report_fits_a_terminal_of_80_columns() -> None:
    found = answer(
        position(1, holders=owned_by(2), waits_for="the mutex at 0x1000", user=(FRAME,)),
        position(2, holders=owned_by(1), user=(FRAME,), user_end="lost"),
        position(3, state="stopped", stopped_by="SIGSTOP", at_least_ns=None),
        position(4, state="running"),
        *(position(tid) for tid in range(5, 500)),
        remarks=("a remark " * 20,),
        freezers=("/sys/fs/cgroup/a b/cgroup.freeze",),
    )
    assert all(len(line) <= 80 for line in render(found, Layout(width=80)).splitlines())


def test_deadlock_is_the_first_line_of_the_report() -> None:
    found = answer(position(3), position(1, holders=owned_by(2)), position(2, holders=owned_by(1)))
    first, *_ = render(found, IN_A_PIPE).splitlines()
    assert first == (
        "# DEADLOCK: worker (1) waits for a lock of worker (2), and worker (2) waits for a lock of"
        " worker (1)."
    )


def test_thread_that_joins_one_behind_its_own_lock_is_deadlocked() -> None:
    joins = position(1, holders=(Holder("child", 2, "worker"),), reason="futex")
    found = answer(joins, position(2, holders=owned_by(1)))
    first, *_ = render(found, IN_A_PIPE).splitlines()
    assert first == (
        "# DEADLOCK: worker (1) waits for the end of worker (2), and worker (2) waits for a lock of"
        " worker (1)."
    )


def test_circle_with_a_timeout_or_a_file_lock_is_no_deadlock() -> None:
    """It ends by itself; and any thread of a process may give its file lock back."""
    behind = position(2, holders=owned_by(1))
    timed = position(1, holders=owned_by(2), timeout_ns=2_000_000_000)
    locked = position(1, holders=owned_by(2), reason="file_lock", syscall="flock")
    assert deadlocks((timed, behind)) == deadlocks((locked, behind)) == ()


def test_end_of_a_process_may_come_from_any_of_its_threads() -> None:
    waits = position(1, holders=(Holder("child", 2, "worker"),), reason="child", syscall="wait4")
    assert deadlocks((waits, position(2, holders=owned_by(1)))) == ()


def test_owner_many_wait_for_is_named_once_with_state() -> None:
    found = answer(
        *(position(tid, holders=owned_by(1)) for tid in range(2, 12)),
        position(1, name="owner", state="uninterruptible", syscall="fsync"),
    )
    assert (
        "# 10 threads wait for a lock of worker (1), which is in uninterruptible sleep, in fsync."
        in render(found, IN_A_PIPE).splitlines()
    )


@pytest.mark.parametrize("relation", ["owner", "child"])
@pytest.mark.parametrize("state", ["stopped", "traced"])
def test_holder_that_is_stopped_is_said_to_be(relation: Relation, state: Held) -> None:
    held = Holder(relation, 7, "sh", state)
    lines = render(answer(position(2, holders=(held,))), IN_A_PIPE).splitlines()
    assert f"    {relation}: sh (7), {state}" in lines
    waits = f"# 1 thread waits for a lock of sh (7), which is {state}."
    assert (waits in lines) == (relation == "owner")


def test_time_of_no_length_is_not_known() -> None:
    (_, _, _, head) = render(answer(position(1, at_least_ns=0)), IN_A_PIPE).splitlines()
    assert head == "worker (1): sleeping, since when is not known, in futex"


def test_owners_who_share_a_lock_are_one_line_and_no_deadlock() -> None:
    shared = (Holder("owner", 1, "sh"), Holder("owner", 2, "sleep"))
    threads = [position(1, holders=owned_by(3)), position(3, holders=shared)]
    lines = render(answer(*threads), IN_A_PIPE).splitlines()
    assert "# 1 thread waits for a lock of sh (1) and sleep (2), which share it." in lines
    assert [line for line in lines if "owner" in line] == [
        "    owner: worker (3)",
        "    owner: sh (1)",
        "    owner: sleep (2)",
    ]
    assert deadlocks(threads) == ()


def test_threads_that_stand_alike_are_one_entry() -> None:
    lines = render(answer(*map(position, range(1, 65))), IN_A_PIPE).splitlines()
    assert lines[-1] == (
        "worker (1), worker (2), worker (3), 61 more: sleeping for at least 2.50 s, in futex"
    )


def test_one_entry_does_not_take_one_time_for_all() -> None:
    waits = [
        position(
            tid,
            reason="futex",
            waits_for=f"the futex at {tid:#x}, or a time-out {tid} s from now",
            user_end="whole",
        )
        for tid in (1, 2)
    ]
    said = "    waits for: the futex at 0x1, or a time-out 1 s from now (this is worker (1); the"
    assert f"{said} others' differ)" in render(answer(*waits), IN_A_PIPE).splitlines()
    unknown = [structs.replace(each, user_end="lost") for each in waits]
    assert (
        sum("waits for" in line for line in render(answer(*unknown), IN_A_PIPE).splitlines()) == 2
    )


def test_entries_do_not_differ_by_their_timeouts() -> None:
    joins = [
        position(tid, reason="futex", waits_for=f"the end of x (9), or a time-out {tid} s from now",
                 holders=(Holder("child", 9, "x"),))
        for tid in (1, 2)
    ]  # fmt: skip
    assert "worker (1), worker (2): sleeping" in render(answer(*joins), IN_A_PIPE)


def test_python_threads_stand_alike_in_frames_of_their_own() -> None:
    frames = [
        UserFrame(address, "work", 0, "/a.py", "/a.py:3", language="python") for address in (1, 2)
    ]
    alike = [position(tid, user=(frame,)) for tid, frame in enumerate(frames, start=1)]
    assert "worker (1), worker (2): sleeping" in render(answer(*alike), IN_A_PIPE)


def test_what_keeps_a_process_has_its_remedy() -> None:
    found = answer(
        position(10, state="stopped", stopped_by="SIGTSTP"),
        freezers=("/sys/fs/cgroup/a b/cgroup.freeze",),
        throttling=("/a.slice",),
    )
    lines = render(found, IN_A_PIPE).splitlines()
    assert "# STOPPED by SIGTSTP. To resume it: kill -CONT 10" in lines
    assert "# FROZEN by its cgroup. To thaw it: echo 0 >'/sys/fs/cgroup/a b/cgroup.freeze'" in lines
    assert "# THROTTLED: the quota of CPU time is used up, of /a.slice" in lines


def test_what_its_terminal_stops_is_resumed_by_its_shell() -> None:
    found = answer(position(10, state="stopped", stopped_by="SIGTTIN"))
    remedy = "fg in its shell, as it uses a terminal in the background"
    said = f"# STOPPED by SIGTTIN. To resume it: {remedy}"
    assert said in render(found, IN_A_PIPE).splitlines()


def test_kernel_wait_names_reason_and_object() -> None:
    found = answer(
        position(1, state="uninterruptible", reason="disk", syscall="fsync", waits_for="fd 3 (/x)")
    )
    assert "    waits for: a disk, for fd 3 (/x)" in render(found, IN_A_PIPE).splitlines()


def test_names_of_others_are_escaped() -> None:
    found = answer(
        position(1, name="a\x1b[2Jb\n", waits_for="fd 3 (/\x1b)", user=(FRAME,)), comm="\x1b"
    )
    assert "\x1b" not in render(found, IN_A_PIPE)


def test_open_of_a_fifo_waits_for_its_other_end() -> None:
    opening = position(1, reason="pipe", syscall="openat", waits_for="/var/log/ovs.fifo")
    said = "    waits for: somebody to open the other end of the FIFO /var/log/ovs.fifo"
    assert said in render(answer(opening), IN_A_PIPE).splitlines()
