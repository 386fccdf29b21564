"""Where threads stand: what a call waits for, who has that, and how it is printed."""

import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import structs

from kernel_delay.reporters.layout import IN_A_PIPE, Layout
from kernel_delay.reporters.where import MOST_DEADLOCKS, MOST_OWNERS, render
from kernel_delay.where import Holder, ProcessPosition, State, ThreadPosition, UserFrame, Where
from kernel_delay.where.calls import Call, Calls, Waited, arguments_of, mutex_owner
from kernel_delay.where.files import Files, Links
from kernel_delay.where.look import deadlocks
from kernel_delay.where.standing import StandingThread, at_least_ns, state_of, stop_signal

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


def test_owner_of_a_32_bit_mutex_is_elsewhere() -> None:
    content = struct.pack("=IIIII", 2, 0, OWNER, 0, 1) + bytes(20)
    assert mutex_owner(content, compat=True) == OWNER


def calls(memory: Mapping[int, bytes], process: Path = Path("/nowhere"), pid: int = 1) -> Calls:
    def read(address: int, size: int) -> bytes:
        return memory.get(address, b"")[:size]

    return Calls(pid, Files(process, Links()), read, NAMES)


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


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """A process as /proc has it: a file, an epoll descriptor, an eventfd and two sockets."""
    fds = tmp_path / "fd"
    fds.mkdir()
    for fd, link in (
        (3, "/data/a file"),
        (4, "anon_inode:[eventpoll]"),
        (5, "anon_inode:[eventfd]"),
        (6, "socket:[600]"),
        (7, "socket:[700]"),
        (8, "socket:[800]"),
        (9, "pipe:[900]"),
    ):
        (fds / str(fd)).symlink_to(link)
    (tmp_path / "fdinfo").mkdir()
    (tmp_path / "fdinfo" / "4").write_text(
        "pos:\t0\nflags:\t02\ntfd:        5 events:       19 data: 5\ntfd:        6 events: 1\n"
    )
    (tmp_path / "net").mkdir()
    head = "  sl  local_address rem_address   st\n"
    (tmp_path / "net" / "tcp").write_text(
        head
        + "   0: 0100007F:1538 0200007F:C350 01 00000000:00000000 00:00000000 00000000 0 0 600 1\n"
        + "   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 700 1\n"
        + "   2: nonsense\n"
    )
    (tmp_path / "net" / "unix").write_text(
        "Num RefCount Protocol Flags Type St Inode Path\n"
        "0000: 00000003 00000000 00000000 0001 03 800 /run/a.sock\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("fd", "words"),
    [
        (3, "fd 3 (/data/a file)"),
        (4, "fd 4 (eventpoll)"),
        (6, "fd 6 (TCP 127.0.0.1:5432 to 127.0.0.2:50000)"),
        (7, "fd 7 (TCP 0.0.0.0:80)"),
        (8, "fd 8 (Unix socket /run/a.sock)"),
        (9, "fd 9 (a pipe)"),
        (10, "fd 10"),
    ],
)
def test_descriptor_is_what_proc_says(process: Path, fd: int, words: str) -> None:
    assert Files(process, Links()).describe(fd).words == words


def test_polled_descriptors_are_named(process: Path) -> None:
    memory = {ADDRESS: struct.pack("=ihhihhihh", 3, 1, 0, -1, 1, 0, 5, 1, 0)}
    waited = calls(memory, process).waited(call("poll", ADDRESS, 3, 1000))
    assert waited.words == "fd 3 (/data/a file), fd 5 (eventfd)"


def test_selected_descriptors_are_those_of_all_sets(process: Path) -> None:
    memory = {ADDRESS: b"\x08", ADDRESS + 8: b"\x20"}
    waited = calls(memory, process).waited(call("select", 6, ADDRESS, ADDRESS + 8, 0))
    assert waited.words == "fd 3 (/data/a file), fd 5 (eventfd)"


def test_epoll_has_what_it_watches(process: Path) -> None:
    waited = calls({}, process).waited(call("epoll_wait", 4, ADDRESS, 10, 0xFFFFFFFF))
    assert waited.words == (
        "epoll fd 4, which watches fd 5 (eventfd), fd 6 (TCP 127.0.0.1:5432 to 127.0.0.2:50000)"
    )


def test_many_descriptors_are_counted(process: Path) -> None:
    assert Files(process, Links()).several(list(range(20, 30))).endswith("fd 23, 6 more")


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


def test_owner_many_wait_for_is_named_once_with_state() -> None:
    found = answer(
        *(position(tid, holders=owned_by(1)) for tid in range(2, 12)),
        position(1, name="owner", state="uninterruptible", syscall="fsync"),
    )
    assert (
        "# 10 threads wait for a lock of worker (1), which is in uninterruptible sleep, in fsync."
        in render(found, IN_A_PIPE).splitlines()
    )


def test_threads_that_stand_alike_are_one_entry() -> None:
    lines = render(answer(*map(position, range(1, 65))), IN_A_PIPE).splitlines()
    assert lines[-1] == (
        "worker (1), worker (2), worker (3), 61 more: sleeping for at least 2.50 s, in futex"
    )


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
