"""`kernel-delay where`: the frames are gdb's, and who keeps a thread is named."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from kernel_delay.host.target import find_descendants
from kernel_delay.where import Holder, ThreadPosition, Where
from kernel_delay.where.process import NO_REGISTERS
from lab.instance import Instance
from tests import commands
from tests.gdb_frames import are_gdbs, frames_by_gdb
from tests.needs import need_registers, need_unix_diag, needed
from tests.posix_queues import new_queue
from tests.verdicts.cgroups import cgroup, join, unified
from tests.verdicts.staging import Process, workload
from tests.workload import wait_until

pytestmark = pytest.mark.usefixtures("root_user", "measurable")


def where(*options: object) -> Where:
    done = commands.run("where", *options, "--json")
    assert done.returncode == os.EX_OK, done.stderr
    return msgspec.json.decode(done.stdout, type=Where)


def threads_of(pid: int) -> dict[int, ThreadPosition]:
    need_registers()
    (process,) = where("-p", pid).processes
    assert process.remarks == ()
    return {thread.tid: thread for thread in process.threads}


def text(*options: object) -> list[str]:
    done = commands.run("where", *options)
    assert done.returncode == os.EX_OK, done.stderr
    return done.stdout.splitlines()


def addresses(thread: ThreadPosition) -> list[int]:
    return [frame.address for frame in thread.user if not frame.inlined]


def state(tid: int) -> str:
    return Path(f"/proc/{tid}/stat").read_text().rpartition(")")[2].split()[0]


def is_in(tid: int, call: str) -> bool:
    """Whether the thread sleeps in the system call of that number."""
    return Path(f"/proc/{tid}/syscall").read_text().split()[0] == call


FUTEX = {"x86_64": "202", "aarch64": "98"}[os.uname().machine]
FLOCK = {"x86_64": "73", "aarch64": "32"}[os.uname().machine]
POLL = {"x86_64": "7", "aarch64": "73"}[os.uname().machine]
READ = {"x86_64": "0", "aarch64": "63"}[os.uname().machine]


@contextmanager
def python(source: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program of Python's that prints a line when it is about to wait."""
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.fixture
def deadlock() -> Iterator[Process]:
    """Its threads "owner" and "victim", which is the first, wait for each other's mutex."""
    with workload("contended", "deadlock", "sleep", 20_000) as process:
        pair = (process.reported["owner"], process.pid)
        wait_until(lambda: all(is_in(tid, FUTEX) for tid in pair))
        yield process


def test_deadlocked_threads_have_gdbs_frames(deadlock: Process) -> None:
    threads = threads_of(deadlock.pid)
    theirs = frames_by_gdb(deadlock.pid)
    for tid in (deadlock.reported["owner"], deadlock.pid):
        assert threads[tid].user_end == "whole"
        assert are_gdbs(addresses(threads[tid]), theirs[tid])
        assert any("mutex_lock" in (frame.name or "") for frame in threads[tid].user)


def test_deadlock_names_both_threads_and_their_locks(deadlock: Process) -> None:
    owner, victim = deadlock.reported["owner"], deadlock.pid
    threads = threads_of(deadlock.pid)
    found = where("-p", deadlock.pid)
    assert [set(circle) for circle in found.deadlocks] == [{owner, victim}]
    assert [(each.relation, each.tid) for each in threads[owner].holders] == [("owner", victim)]
    assert [(each.relation, each.tid) for each in threads[victim].holders] == [("owner", owner)]
    assert threads[owner].syscall == "futex"
    assert text("-p", deadlock.pid)[0].startswith("# DEADLOCK: ")


JOIN_BEHIND_A_LOCK = """
import ctypes
c, mutex, thread = ctypes.CDLL(None), ctypes.create_string_buffer(64), ctypes.c_ulong()
c.pthread_mutex_lock(mutex)
c.pthread_create(ctypes.byref(thread), None, c.pthread_mutex_lock, mutex)
print("joins", flush=True)
c.pthread_join(thread, None)
"""


def test_join_names_the_thread_and_the_deadlock_that_it_makes() -> None:
    with python(JOIN_BEHIND_A_LOCK) as process:
        (other,) = set(map(int, os.listdir(f"/proc/{process.pid}/task"))) - {process.pid}
        wait_until(lambda: is_in(process.pid, FUTEX) and is_in(other, FUTEX))
        threads = threads_of(process.pid)
        first, *_ = text("-p", process.pid)
    joins, locks = threads[process.pid], threads[other]
    assert joins.waits_for == f"the end of thread {locks.name} ({other})"
    assert [(each.relation, each.tid) for each in locks.holders] == [("owner", process.pid)]
    assert first.startswith("# DEADLOCK: ")
    # A circle begins with its lowest TID, which is the later thread's where TIDs began anew.
    waits = f"{joins.name} ({process.pid}) waits for the end of {locks.name} ({other})"
    assert waits in first


SHARED_MUTEX = """
import ctypes, mmap, os, sys, time
c, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(64)
memory = mmap.mmap(-1, 4096)
mutex = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
c.pthread_mutexattr_init(attributes)
c.pthread_mutexattr_setpshared(attributes, 1) # PTHREAD_PROCESS_SHARED
c.pthread_mutexattr_setprotocol(attributes, PROTOCOL)
c.pthread_mutex_init(mutex, attributes)
reads, writes = os.pipe()
child = os.fork()
if not child:
    c.pthread_mutex_lock(mutex)
    os.write(writes, b"1")
    os.close(writes)
    while os.getppid() != 1:
        time.sleep(0.1)
    os._exit(0)
os.read(reads, 1)
print(child, flush=True)
c.pthread_mutex_lock(mutex)
"""


# pthread_mutexattr_getprotocol(3): PTHREAD_PRIO_NONE and PTHREAD_PRIO_INHERIT
@pytest.mark.parametrize(("protocol", "said"), [(0, "the mutex at "), (1, "the PI mutex at ")])
def test_mutex_names_its_owner_in_another_process(protocol: int, said: str) -> None:
    with python(SHARED_MUTEX.replace("PROTOCOL", str(protocol))) as process:
        (child,) = find_descendants((process.pid,))
        wait_until(lambda: is_in(process.pid, FUTEX))
        os.kill(child.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: state(child.pid) == "T")
            thread = threads_of(process.pid)[process.pid]
        finally:
            os.kill(child.pid, signal.SIGCONT)
    (holder,) = thread.holders
    assert (holder.relation, holder.tid, holder.held) == ("owner", child.pid, "stopped")
    assert (thread.waits_for or "").startswith(said)


def test_python_that_sleeps_has_gdbs_frames() -> None:
    with python("import time; print('on', flush=True); time.sleep(600)") as process:
        wait_until(lambda: state(process.pid) == "S")
        thread = threads_of(process.pid)[process.pid]
        assert are_gdbs(addresses(thread), frames_by_gdb(process.pid)[process.pid])
    assert thread.reason == "clock"
    assert thread.waits_for is not None
    assert thread.waits_for.startswith("a moment ")


def is_stopped_or_gone(tid: int) -> bool:
    try:
        return state(tid) == "T"
    except OSError:
        return True


def test_all_threads_of_open_vswitch_have_gdbs_frames(ovs: Instance) -> None:
    """It is stopped first: its threads wake now and then, and gdb comes later."""
    tasks = Path(f"/proc/{ovs.pid}/task")
    # Without a bridge it has the main thread alone.
    ovs.add_bridge("brwhere")
    try:
        wait_until(lambda: len(list(tasks.iterdir())) > 1, "a second thread")
        os.kill(ovs.pid, signal.SIGSTOP)
        tids = [int(path.name) for path in tasks.iterdir()]
        wait_until(lambda: all(map(is_stopped_or_gone, tids)))
        # A thread says that it is stopped before it has left its CPU.
        wait_until(lambda: all(each.user for each in threads_of(ovs.pid).values()))
        threads = threads_of(ovs.pid)
        theirs = frames_by_gdb(ovs.pid)
    finally:
        os.kill(ovs.pid, signal.SIGCONT)
        ovs.vsctl("del-br", "brwhere")
    assert len(theirs) > 1
    assert {tid: addresses(thread) for tid, thread in threads.items()} == theirs


def test_time_asleep_is_a_lower_bound() -> None:
    began_ns = time.monotonic_ns()
    with python("import sys; print('on', flush=True); sys.stdin.read(1)") as process:
        wait_until(lambda: is_in(process.pid, READ))
        time.sleep(1)
        thread = threads_of(process.pid)[process.pid]
        ended_ns = time.monotonic_ns()
    assert thread.at_least_ns is not None
    # What a hypervisor took of the second is not counted, and may be nearly all of it.
    assert 0 < thread.at_least_ns < ended_ns - began_ns


# Takes a CPU from all threads of a lower priority, once it has printed a line.
TAKES_A_CPU = """
import os
os.sched_setaffinity(0, {{{cpu}}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param({priority}))
print("ready", flush=True)
while True:
    pass
"""


def test_time_without_a_cpu_is_a_lower_bound() -> None:
    cpu = max(os.sched_getaffinity(0))
    with python(TAKES_A_CPU.format(cpu=cpu, priority=1)) as waiting:
        began_ns = time.monotonic_ns()
        with python(TAKES_A_CPU.format(cpu=cpu, priority=2)):
            taken_ns = time.monotonic_ns()
            time.sleep(0.1)
            asked_ns = time.monotonic_ns()
            thread = threads_of(waiting.pid)[waiting.pid]
            ended_ns = time.monotonic_ns()
    assert thread.state == "runnable"
    assert thread.at_least_ns is not None
    # The scheduler's clock and this one may drift apart.
    assert (asked_ns - taken_ns) / 2 < thread.at_least_ns < ended_ns - began_ns


def test_stopped_process_says_by_which_signal() -> None:
    with python("import time; print('on', flush=True); time.sleep(600)") as process:
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: state(process.pid) == "T")
        thread = threads_of(process.pid)[process.pid]
        lines = text("-p", process.pid)
    assert (thread.state, thread.stopped_by) == ("stopped", "SIGSTOP")
    assert f"# STOPPED by SIGSTOP. To resume it: kill -CONT {process.pid}" in lines


def test_frozen_process_says_what_thaws_it() -> None:
    with (
        cgroup(unified()) as group,
        python("import time; print('on', flush=True); time.sleep(600)") as process,
    ):
        join(group, process.pid)
        (group / "cgroup.freeze").write_text("1")
        wait_until(lambda: "frozen 1" in (group / "cgroup.events").read_text())
        (found,) = where("-p", process.pid).processes
        (group / "cgroup.freeze").write_text("0")
    assert found.threads[0].state == "frozen"
    assert found.freezers == (str(group / "cgroup.freeze"),)


def test_file_lock_names_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "locked"
    source = (
        f"import fcntl; f = open({str(file)!r}, 'w'); print('on', flush=True); fcntl.flock(f, 2)"
    )
    with file.open("w") as ours:
        fcntl.flock(ours, fcntl.LOCK_EX)
        with python(source) as process:
            wait_until(lambda: is_in(process.pid, FLOCK))
            thread = threads_of(process.pid)[process.pid]
    assert thread.reason == "file_lock"
    assert str(file) in (thread.waits_for or "")
    assert [(each.relation, each.tid) for each in thread.holders] == [("owner", os.getpid())]


def test_pipe_names_its_writer() -> None:
    source = "import sys; print('on', flush=True); sys.stdin.read(1)"
    with python(source) as process:
        wait_until(lambda: is_in(process.pid, READ))
        thread = threads_of(process.pid)[process.pid]
    assert any(each.relation == "peer" and each.tid == os.getpid() for each in thread.holders)
    assert "a pipe; writer: " in (thread.waits_for or "")


@contextmanager
def forked(source: str, *fds: int) -> Iterator[int]:
    """A process that has these descriptors too and runs this; its PID."""
    with subprocess.Popen([sys.executable, "-c", source, *map(str, fds)], pass_fds=fds) as process:
        try:
            yield process.pid
        finally:
            process.kill()


READS = "import os, sys; os.read(int(sys.argv[1]), 1)"
SLEEPS = "import time; time.sleep(600)"


class Ends(NamedTuple):
    """Two descriptors, and what is said of the first; the second is closed here."""

    waits: int
    other: int
    said: str


def fifo(folder: Path) -> Ends:
    path = folder / "fifo"
    os.mkfifo(path)
    reads = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writes = os.open(path, os.O_WRONLY)
    os.set_blocking(reads, True)
    return Ends(reads, writes, f"the FIFO {path}; writer: ")


def pair(folder: Path, kind: socket.SocketKind) -> Ends:
    need_unix_diag()
    waits, other = socket.socketpair(type=kind)
    return Ends(waits.detach(), other.detach(), "a Unix socket; peer: ")


def unix_server(folder: Path) -> Ends:
    need_unix_diag()
    path = str(folder / "a.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        return Ends(client.detach(), listener.accept()[0].detach(), f"to {path}; peer: ")


def backlog(folder: Path) -> Ends:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    at = "to {}:{}; peer: ".format(*listener.getsockname())
    return Ends(client.detach(), listener.detach(), at)


@pytest.mark.parametrize(
    "opened",
    [
        fifo,
        partial(pair, kind=socket.SOCK_STREAM),
        partial(pair, kind=socket.SOCK_DGRAM),
        unix_server,
        backlog,
    ],
    ids=["fifo", "stream", "datagram", "unix_server", "backlog"],
)
def test_other_end_of_a_read_is_named(opened: Callable[[Path], Ends], tmp_path: Path) -> None:
    ends = opened(tmp_path)
    with forked(SLEEPS, ends.other) as other, forked(READS, ends.waits) as waiter:
        os.close(ends.other)
        os.close(ends.waits)
        wait_until(lambda: is_in(waiter, READ))
        thread = threads_of(waiter)[waiter]
        comm = Path(f"/proc/{other}/comm").read_text().strip()
    assert f"{ends.said}{comm} ({other})" in (thread.waits_for or "")
    assert thread.holders == (Holder("peer", other, comm),)


WAITS_AT_A_QUEUE = "import sys; from tests.posix_queues import receive; receive(int(sys.argv[1]))"


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("eventfd", "import os, sys; os.eventfd_read(int(sys.argv[1]))"),
        ("POSIX queue", WAITS_AT_A_QUEUE),
    ],
)
def test_stopped_process_that_shares_it_is_named(kind: str, source: str) -> None:
    fd = os.eventfd(0) if kind == "eventfd" else new_queue(f"/kd-{os.getpid()}")
    with forked(SLEEPS, fd) as other, forked(source, fd) as waiter:
        os.close(fd)
        os.kill(other, signal.SIGSTOP)
        wait_until(lambda: state(other) == "T" and state(waiter) == "S")
        thread = threads_of(waiter)[waiter]
    assert f"({other}), stopped)" in (thread.waits_for or "")


def test_stopped_server_of_a_poll_is_said_to_be() -> None:
    reads, writes = os.pipe()
    polls = "import select, sys; p = select.poll(); p.register(int(sys.argv[1])); p.poll()"
    with forked(SLEEPS, writes) as other, forked(polls, reads) as waiter:
        os.close(reads)
        os.close(writes)
        os.kill(other, signal.SIGSTOP)
        wait_until(lambda: state(other) == "T" and state(waiter) == "S")
        wait_until(lambda: is_in(waiter, POLL))
        thread = threads_of(waiter)[waiter]
    assert f"({other}), stopped)" in (thread.waits_for or "")


@pytest.mark.parametrize(
    ("source", "calls", "said"),
    [
        (
            "import os, select; poll = select.poll(); poll.register(os.pipe()[0]);"
            " print('on', flush=True); poll.poll(1_000_000)",
            ("poll", "ppoll"),
            "a pipe",
        ),
        (
            "import threading; lock = threading.Lock(); lock.acquire();"
            " print('on', flush=True); lock.acquire(timeout=1000)",
            ("futex",),
            "the futex at ",
        ),
    ],
    ids=["poll", "futex"],
)
def test_call_that_goes_on_after_a_stop_keeps_its_object(
    source: str, calls: tuple[str, ...], said: str
) -> None:
    with python(source) as process:
        wait_until(lambda: state(process.pid) == "S")
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: state(process.pid) == "T")
        os.kill(process.pid, signal.SIGCONT)
        wait_until(lambda: state(process.pid) == "S")
        thread = threads_of(process.pid)[process.pid]
    assert thread.syscall in calls
    assert said in (thread.waits_for or "")
    assert 0 < (thread.timeout_ns or 0) <= 1000 * 10**9


def test_inherited_file_lock_names_all_who_have_it(tmp_path: Path) -> None:
    """Whoever took it has ended."""
    file = tmp_path / "locked"
    source = (
        f"import fcntl; f = open({str(file)!r}, 'w'); print('on', flush=True); fcntl.flock(f, 2)"
    )
    with file.open("w") as ours, forked(SLEEPS, ours.fileno()) as other:
        with forked("import fcntl, sys; fcntl.flock(int(sys.argv[1]), 2)", ours.fileno()) as taker:
            wait_until(lambda: state(taker) == "Z")
        with python(source) as process:
            wait_until(lambda: is_in(process.pid, FLOCK))
            thread = threads_of(process.pid)[process.pid]
            lines = text("-p", process.pid)
    owners = {each.tid for each in thread.holders if each.relation == "owner"}
    assert owners == {os.getpid(), other}
    assert any(line.endswith(", which share it.") for line in lines)


# Writes to a file from memory that a userfaultfd never fills: the inode stays locked.
HOLDS_INODE = """
import ctypes, fcntl, mmap, os, struct, sys
libc = ctypes.CDLL(None)
faults = libc.syscall({userfaultfd}, os.O_CLOEXEC)
if faults < 0:
    print("no userfaultfd", flush=True)
    sys.exit()
fcntl.ioctl(faults, 0xC018AA3F, bytearray(struct.pack("=QQQ", 0xAA, 0, 0)))
memory = mmap.mmap(-1, 16384)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
fcntl.ioctl(faults, 0xC020AA00, bytearray(struct.pack("=QQQQ", address, 16384, 1, 0)))
file = os.open({path!r}, os.O_WRONLY)
print("on", flush=True)
libc.pwrite(file, ctypes.c_void_p(address), 8192, 0)
"""
USERFAULTFD = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
PWRITE = {"x86_64": "18", "aarch64": "68"}[os.uname().machine]


def test_kernel_lock_names_its_owner() -> None:
    if b"\0last_holder\0" not in Path("/sys/kernel/btf/vmlinux").read_bytes():
        pytest.skip("this kernel does not keep which lock a task waits for (Linux 6.16)")
    with tempfile.NamedTemporaryFile() as file:
        holds = HOLDS_INODE.format(userfaultfd=USERFAULTFD, path=file.name)
        writes = f"print('on', flush=True); open({file.name!r}, 'ab', 0).write(b'x')"
        with python(holds) as holder:
            if holder.poll() is not None:
                pytest.skip("this kernel has no userfaultfd")
            wait_until(lambda: is_in(holder.pid, PWRITE) and state(holder.pid) == "S")
            with python(writes) as writer:
                try:
                    wait_until(lambda: state(writer.pid) == "D")
                    thread = threads_of(writer.pid)[writer.pid]
                finally:
                    # Until then no signal ends the other.
                    holder.kill()
    assert (thread.state, thread.reason) == ("uninterruptible", "kernel_lock")
    assert [(each.relation, each.tid) for each in thread.holders] == [("owner", holder.pid)]
    assert thread.waits_for is not None
    assert file.name in thread.waits_for


# Asks the network for a device's link, the answer to be written to memory that a userfaultfd never
# fills: rtnl_mutex stays locked (net/ethtool/ioctl.c:ethtool_get_link(), 5.14 to 6.18).
HOLDS_NETWORK = """
import ctypes, fcntl, mmap, os, socket, struct
libc = ctypes.CDLL(None)
faults = libc.syscall({userfaultfd}, os.O_CLOEXEC)
fcntl.ioctl(faults, 0xC018AA3F, bytearray(struct.pack("=QQQ", 0xAA, 0, 0)))
memory = mmap.mmap(-1, 8192)
memory[4092:4096] = struct.pack("=I", 0xA)  # ETHTOOL_GLINK; what comes behind is the link
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
second = bytearray(struct.pack("=QQQQ", address + 4096, 4096, 1, 0))
fcntl.ioctl(faults, 0xC020AA00, second)
print("on", flush=True)
fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sQ16x", b"lo", address + 4092))  # SIOCETHTOOL
"""
# SIOCSIFMTU
SETS_MTU = """
import fcntl, socket, struct
print("on", flush=True)
fcntl.ioctl(socket.socket(), 0x8922, struct.pack("16si12x", b"lo", 65536))
"""
IOCTL = {"x86_64": "16", "aarch64": "29"}[os.uname().machine]


def test_lock_that_the_kernel_has_a_name_for_is_named() -> None:
    if b"\0last_holder\0" not in Path("/sys/kernel/btf/vmlinux").read_bytes():
        pytest.skip("this kernel does not keep which lock a task waits for (Linux 6.16)")
    if " rtnl_mutex\n" not in Path("/proc/kallsyms").read_text():
        pytest.skip("this kernel shows the names of functions alone (CONFIG_KALLSYMS_ALL)")
    with python(HOLDS_NETWORK.format(userfaultfd=USERFAULTFD)) as holder:
        wait_until(lambda: is_in(holder.pid, IOCTL) and state(holder.pid) == "S")
        with python(SETS_MTU) as waiter:
            try:
                wait_until(lambda: state(waiter.pid) == "D")
                thread = threads_of(waiter.pid)[waiter.pid]
                shown = commands.run("where", "-p", waiter.pid).stdout
            finally:
                holder.kill()
    assert (thread.reason, thread.kernel_lock) == ("kernel_lock", "rtnl_mutex")
    assert [(each.relation, each.tid) for each in thread.holders] == [("owner", holder.pid)]
    assert "waits for: the kernel's lock rtnl_mutex, for fd" in shown


def test_busy_thread_never_sleeps() -> None:
    with python("print('on', flush=True)\nwhile True: pass") as process:
        thread = threads_of(process.pid)[process.pid]
    assert thread.state in ("running", "runnable")
    if thread.state == "running":
        assert thread.kernel == ()
        assert {frame.language for frame in thread.user} == {"python"}


def test_traced_thread_names_its_tracer(tmp_path: Path) -> None:
    script = tmp_path / "wait.py"
    script.write_text("import time\nprint('on', flush=True)\ntime.sleep(600)\n")
    with python("import time; print('on', flush=True); time.sleep(600)") as process:
        command = [needed("gdb"), "-nx", "-batch", "-p", str(process.pid), "-x", str(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as gdb:
            try:
                wait_until(lambda: state(process.pid) == "t")
                thread = threads_of(process.pid)[process.pid]
            finally:
                gdb.kill()
    assert thread.state == "traced"
    assert thread.holders == (Holder("tracer", gdb.pid, "gdb"),)


def test_children_are_shown_with_their_parent() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600; :"]) as shell:
        try:
            wait_until(lambda: len(find_descendants((shell.pid,))) == 2, "the children")
            children = [child.pid for child in find_descendants((shell.pid,))]
            found = where("-p", shell.pid, "--children")
            assert {each.pid for each in found.processes} == {shell.pid, *children}
        finally:
            for child in find_descendants((shell.pid,)):
                os.kill(child.pid, signal.SIGKILL)
            shell.kill()


@pytest.mark.long
def test_children_that_exit_meanwhile_are_left_out() -> None:
    loop = ["sh", "-c", "while :; do sleep 0.02 & sleep 0.02; done"]
    with subprocess.Popen(loop) as one, subprocess.Popen(loop) as other:
        try:
            for _ in range(3):
                found = where("--children", "-p", one.pid, "-p", other.pid)
                assert {each.pid for each in found.processes} >= {one.pid, other.pid}
        finally:
            one.kill()
            other.kill()


def test_no_such_process_is_one_line() -> None:
    done = commands.run("where", "-p", 4_000_000)
    assert done.returncode == os.EX_NOINPUT
    assert len(done.stderr.splitlines()) == 1


# exit(2) of one thread: 60 on x86-64, 93 on arm64.
ENDS_FIRST_THREAD = """
import ctypes, os, threading
threading.Thread(target=ctypes.CDLL(None).pause).start()
print(flush=True)
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


def test_first_thread_that_has_ended_is_no_lack_of_the_kernels() -> None:
    """It has no registers, as no thread has on older kernels."""
    command = [sys.executable, "-c", ENDS_FIRST_THREAD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: state(process.pid) == "Z")
        (found,) = where("-p", process.pid).processes
        process.kill()
    assert [thread.state for thread in found.threads] == ["exited", "sleeping"]
    # Python's functions are read from its memory.
    native = [frame for frame in found.threads[1].user if frame.language is None]
    assert (NO_REGISTERS in found.remarks) == (not native)
