"""On which file a thread slept: a program that reads one pipe after the other, and a TCP socket."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from kernel_delay.analysis.verdict.wait_files import path_text
from kernel_delay.capture.plan import RoundPlan
from kernel_delay.capture.threads.sleeps import FILE_SHARE
from kernel_delay.model import Sample, Sleep
from tests.integration.capture.captures import UNTIL_ENDED_S, StartCapture, thread
from tests.integration.capture.test_rounds import watched
from tests.needs import is_preempt_rt, need_unix_diag
from tests.system_calls import made_call, syscall_number
from tests.verdicts.cgroups import cgroup, controller, join, unified
from tests.verdicts.truth import NotHereError
from tests.workload import stop, wait_until

# Longer than any test.
LIFE_S = 300

READER = """
import os, signal, sys
signal.alarm(int(sys.argv[1]))
for fd in sys.argv[2:]:
    os.read(int(fd), 1)
"""


@contextmanager
def reader(*fds: int) -> Iterator[int]:
    """A process that reads a byte of each of these, one after the other."""
    words = (sys.executable, "-c", READER, str(LIFE_S), *map(str, fds))
    with subprocess.Popen(words, pass_fds=fds) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def wait_until_reading(pid: int, fd: int) -> None:
    """Wait until it is in read(2) of that descriptor."""
    call = f"{syscall_number('read')} {fd:#x} "
    wait_until(lambda: Path(f"/proc/{pid}/syscall").read_text().startswith(call))


def slept(sample: Sample, pid: int) -> list[Sleep]:
    """Its sleeps; all together they are the time that it was blocked."""
    measured = thread(sample, pid)
    assert measured.time is not None
    assert sum(sleep.ns for sleep in measured.sleeps) == measured.time.blocked_ns
    return list(measured.sleeps)


@pytest.mark.usefixtures("earlier_calls")
def test_sleeps_on_several_files_are_told_apart(start_capture: StartCapture) -> None:
    pipes = [os.pipe() for _ in range(3)]
    with reader(*(reads for reads, _ in pipes)) as pid:
        wait_until_reading(pid, pipes[0][0])
        capture = start_capture(pid, UNTIL_ENDED_S)
        capture.wait_until_open()
        for (_, writes), (next_reads, _) in pairwise(pipes):
            time.sleep(0.3)
            os.write(writes, b"x")
            wait_until_reading(pid, next_reads)
        time.sleep(0.3)
        sample = capture.end()
        least_ns = FILE_SHARE * sample.window.duration_ns
        named = [each for each in slept(sample, pid) if each.reason == "pipe" and each.file]
        long = [each for each in slept(sample, pid) if each.reason == "pipe" and each.ns > least_ns]
    inodes = {reads: os.fstat(reads).st_ino for reads, _ in pipes}
    for ends in pipes:
        for fd in ends:
            os.close(fd)
    assert long
    assert [sleep for sleep in long if sleep.file is None] == []
    for sleep in named:
        assert sleep.file is not None
        assert sleep.file.inode == inodes[sleep.file.fd]
        assert (sleep.file.kind, sleep.syscall) == ("pipe", "read")
        assert os.getpid() in [peer.pid for peer in sleep.file.peers]


TURNS = 3

EPOLLER = """
import os, select, signal, sys
signal.alarm(int(sys.argv[1]))
events = select.EPOLLIN | int(sys.argv[2])
epoll = select.epoll()
for fd in sys.argv[3:]:
    epoll.register(int(fd), events)
while True:
    for fd, _ in epoll.poll():
        os.read(fd, 1)
        epoll.modify(fd, events)
"""


@contextmanager
def epoller(events: int, *fds: int) -> Iterator[int]:
    """A process that reads a byte of each of these when it comes, by epoll."""
    words = (sys.executable, "-c", EPOLLER, str(LIFE_S), str(events), *map(str, fds))
    with subprocess.Popen(words, pass_fds=fds) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def wait_until_epolling(pid: int) -> None:
    call = f"{syscall_number(made_call('epoll_wait', 'epoll_pwait'))} "
    wait_until(lambda: Path(f"/proc/{pid}/syscall").read_text().startswith(call))


@pytest.mark.usefixtures("earlier_calls")
@pytest.mark.parametrize("events", [0, select.EPOLLET, select.EPOLLONESHOT])
def test_sleep_in_epoll_is_on_the_file_that_got_ready(
    start_capture: StartCapture, events: int
) -> None:
    writer_of = dict(os.pipe() for _ in range(3))
    slept_ns = dict.fromkeys(writer_of, 0)
    with epoller(events, *writer_of) as pid:
        wait_until_epolling(pid)
        capture = start_capture(pid, UNTIL_ENDED_S)
        capture.wait_until_open()
        for _ in range(TURNS):
            for place, (fd, writes) in enumerate(writer_of.items()):
                wait_until_epolling(pid)
                began_ns = time.monotonic_ns()
                time.sleep(0.05 * (place + 1))
                slept_ns[fd] += time.monotonic_ns() - began_ns
                os.write(writes, b"x")
        wait_until_epolling(pid)
        time.sleep(0.3)
        sample = capture.end()
        found = [each for each in slept(sample, pid) if each.reason == "epoll"]
    inodes = {fd: os.fstat(fd).st_ino for fd in writer_of}
    for fd in (*writer_of.keys(), *writer_of.values()):
        os.close(fd)
    named = {each.file.fd: each for each in found if each.file}
    # Of a sleep whose switch or wake-up was missed it is not known how long it was, or on which.
    missed = sample.lost.missed_switches
    for fd, ns in slept_ns.items():
        # On a slow machine that may be too little of the window to name a file.
        if (missed or ns < FILE_SHARE * sample.window.duration_ns) and fd not in named:
            continue
        assert missed or named[fd].ns >= ns
        assert named[fd].count >= TURNS - missed
        # With PREEMPT_RT the lock of the ready list may be waited for too.
        assert named[fd].count <= TURNS or is_preempt_rt()
        file = named[fd].file
        assert file is not None
        assert file.inode == inodes[fd]
        assert os.getpid() in [peer.pid for peer in file.peers]
    # Of what goes on at the end nobody knows yet how it will end.
    others = {each.file.kind for fd, each in named.items() if fd not in slept_ns and each.file}
    assert others <= {"epoll"}
    assert max(slept_ns) in named


TIMED = """
import select, signal, sys
signal.alarm(int(sys.argv[1]))
epoll = select.epoll()
epoll.register(int(sys.argv[2]), select.EPOLLIN)
while True:
    epoll.poll(0.05)
"""


@pytest.mark.usefixtures("earlier_calls")
def test_sleep_in_epoll_whose_time_is_up_is_on_no_other_file(start_capture: StartCapture) -> None:
    reads, writes = os.pipe()
    words = (sys.executable, "-c", TIMED, str(LIFE_S), str(reads))
    with subprocess.Popen(words, pass_fds=[reads]) as process:
        try:
            wait_until_epolling(process.pid)
            sample = start_capture(process.pid, 0.5).sample()
            found = [each for each in slept(sample, process.pid) if each.reason == "epoll"]
        finally:
            process.kill()
    os.close(reads)
    os.close(writes)
    assert found
    assert {each.file.kind for each in found if each.file} <= {"epoll"}
    assert max(found, key=lambda each: each.ns).file


def test_of_a_crowd_of_files_the_waker_is_kept(start_capture: StartCapture) -> None:
    """There is not room for each file of a thread that never sleeps on the same twice."""
    pipes = [os.pipe() for _ in range(100)]
    with reader(*(reads for reads, _ in pipes)) as pid:
        wait_until_reading(pid, pipes[0][0])
        capture = start_capture(pid, UNTIL_ENDED_S)
        capture.wait_until_open()
        for (_, writes), (next_reads, _) in pairwise(pipes):
            time.sleep(0.002)
            os.write(writes, b"x")
            wait_until_reading(pid, next_reads)
        found = [each for each in slept(capture.end(), pid) if each.reason == "pipe"]
    for ends in pipes:
        for fd in ends:
            os.close(fd)
    tids = {waker.tid for sleep in found for waker in sleep.wakers}
    assert tids == {threading.get_native_id()}


@pytest.mark.usefixtures("earlier_calls")
def test_a_stopped_server_on_loopback_is_named(start_capture: StartCapture) -> None:
    """Nothing wakes the client: only the socket says for whom it waits."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        accepted, _ = listener.accept()
        with accepted, reader(accepted.fileno()) as server, reader(client.fileno()) as pid:
            wait_until_reading(pid, client.fileno())
            accepted.close()
            client.close()
            stop(server)
            sample = start_capture(pid, "0.5").sample()
    (sleep,) = (each for each in slept(sample, pid) if each.reason == "socket_receive")
    assert sleep.file is not None
    assert sleep.file.kind == "tcp"
    assert [(peer.pid, peer.stopped) for peer in sleep.file.peers] == [(server, True)]
    finding = sample.verdict[0]
    assert (finding.rule, finding.remark) == ("wait_socket_receive", False)
    assert finding.evidence["peer_pid"] == server
    assert f"({server}) was stopped at the end, by a signal." in finding.text


@pytest.mark.usefixtures("earlier_calls")
@pytest.mark.parametrize("file", ["freezer.state", "cgroup.freeze"])
def test_a_frozen_writer_of_a_pipe_is_named(start_capture: StartCapture, file: str) -> None:
    is_v1 = file == "freezer.state"
    try:
        root = controller("freezer") if is_v1 else unified()
    except NotHereError as error:
        pytest.skip(str(error))
    (reads, writes), (never, _) = os.pipe(), os.pipe()
    with cgroup(root) as group:
        words = (sys.executable, "-c", READER, str(LIFE_S), str(never))
        with subprocess.Popen(words, pass_fds=(never, writes)) as writer, reader(reads) as pid:
            os.close(writes)
            wait_until_reading(writer.pid, never)
            wait_until_reading(pid, reads)
            join(group, writer.pid)
            (group / file).write_text("FROZEN" if is_v1 else "1")
            try:
                sample = start_capture(pid, "0.5").sample()
            finally:
                (group / file).write_text("THAWED" if is_v1 else "0")
                writer.kill()
    finding = sample.verdict[0]
    assert (finding.rule, finding.who, finding.remark) == ("wait_pipe", "person", False)
    assert f"({writer.pid}) was frozen at the end, by its cgroup's freezer." in finding.text
    assert finding.advice is not None
    assert finding.advice.endswith(f">{group / file}")


LOCKS = """
import fcntl, sys, time
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
time.sleep(int(sys.argv[2]))
"""


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """A process that has a file locked; its PID."""
    words = (sys.executable, "-c", LOCKS, str(path), str(LIFE_S))
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("has_file", [True, False])
def test_shell_whose_children_try_to_lock_is_said_to(
    start_capture: StartCapture, tmp_path: Path, has_file: bool
) -> None:
    """If the children alone have the file, only their attempts are known."""
    lock, attempts = tmp_path / "lock", tmp_path / "attempts"
    lock.touch()
    attempts.touch()
    attempt = f"exec 9<{lock}; until flock -n 9" if has_file else f"until flock -n {lock} true"
    script = f"{attempt}; do sleep 0.05; echo >>{attempts}; done"
    with locked(lock) as holder, subprocess.Popen(["bash", "-c", script]) as shell:
        try:
            capture = start_capture(shell.pid, UNTIL_ENDED_S)
            capture.wait_until_open()
            enough = attempts.stat().st_size + 4
            wait_until(lambda: attempts.stat().st_size >= enough)
            sample = capture.end()
        finally:
            shell.kill()
    # By its rule: on a busy machine flock may also have had the CPU that a shell waited for.
    rule = "file_lock_polled" if has_file else "wait_child"
    (finding,) = (each for each in sample.verdict if each.rule == rule)
    if has_file:
        assert finding.evidence["holder_pid"] == holder
        assert f"({holder})'s lock on {path_text(str(lock))}," in finding.text
    else:
        assert " waits, maybe after it tried to lock a file." in finding.text


POLLER = """
import os, select, signal, sys
signal.alarm(int(sys.argv[1]))
first, second = map(int, sys.argv[2:])
for fds in ([first], [first, second], [second]):
    polled = select.poll()
    for fd in fds:
        polled.register(fd, select.POLLIN)
    polled.poll()
    os.read(fds[0], 1)
"""


@pytest.mark.usefixtures("earlier_calls", "memory_of_others")
def test_poll_of_one_file_names_it(start_capture: StartCapture) -> None:
    """The first one began before the capture. A poll of several is of none."""
    pipes = [os.pipe() for _ in range(2)]
    (first, _), (second, _) = pipes
    words = (sys.executable, "-c", POLLER, str(LIFE_S), str(first), str(second))
    name = made_call("poll", "ppoll")
    call = f"{syscall_number(name)} "
    with subprocess.Popen(words, pass_fds=(first, second)) as process:
        syscall = Path(f"/proc/{process.pid}/syscall")
        wait_until(lambda: syscall.read_text().startswith(call))
        capture = start_capture(process.pid, UNTIL_ENDED_S)
        capture.wait_until_open()
        written_ns = []
        for files in (2, 1):
            time.sleep(0.3)
            before_ns = time.monotonic_ns()
            os.write(pipes[0][1], b"x")
            written_ns.append((before_ns, time.monotonic_ns()))
            # On a busy machine it may get to its next poll late: that is of so many files.
            wait_until(lambda: syscall.read_text().split()[2:3] == [f"{files:#x}"])  # noqa: B023
        time.sleep(0.3)
        sample = capture.end()
        process.kill()
    polls = [each for each in slept(sample, process.pid) if each.syscall == name]
    inodes = {os.fstat(fd).st_ino for fd in (first, second)}
    for fd in (fd for ends in pipes for fd in ends):
        os.close(fd)
    found = {each.file.inode for each in polls if each.file is not None}
    # Of a sleep whose switch was missed the file is not known.
    assert found == inodes or (found < inodes and sample.lost.missed_switches)
    assert all(os.getpid() in [p.pid for p in each.file.peers] for each in polls if each.file)
    # It polls both files between the two writes.
    (first_ns, after_first_ns), (second_ns, after_second_ns) = written_ns
    without_ns = sum(each.ns for each in polls if each.file is None)
    least_ns, most_ns = second_ns - after_first_ns, after_second_ns - first_ns
    its = thread(sample, process.pid).time
    assert its is not None
    assert 0.9 * least_ns - its.ready_ns - its.unaccounted_ns <= without_ns <= 1.1 * most_ns


ASKER = """
import os, select, signal, sys
signal.alarm(int(sys.argv[1]))
answers, requests = map(int, sys.argv[2:])
while True:
    select.select([], [], [], 0.001)
    os.write(requests, b"x")
    os.read(answers, 1)
"""


@pytest.mark.usefixtures("earlier_calls")
def test_long_round_names_the_process_at_the_other_end() -> None:
    requests, answers = os.pipe(), os.pipe()
    words = (sys.executable, "-c", ASKER, str(LIFE_S), str(answers[0]), str(requests[1]))
    with subprocess.Popen(words, pass_fds=(answers[0], requests[1])) as process:

        def answer_late() -> None:
            for _ in range(3):
                os.read(requests[0], 1)
                time.sleep(0.2)
                os.write(answers[1], b"x")

        samples, _ = watched(process.pid, answer_late, RoundPlan(threshold_ns=100_000_000))
        process.kill()
    for fd in (*requests, *answers):
        os.close(fd)
    slept = [sleep for sample in samples for sleep in thread(sample, process.pid).sleeps]
    (file, *_) = [each.file for each in slept if each.reason == "pipe" and each.file]
    assert (file.fd, file.kind) == (answers[0], "pipe")
    assert os.getpid() in [peer.pid for peer in file.peers]


@pytest.fixture
def unix_diag() -> None:
    need_unix_diag()


@pytest.mark.usefixtures("earlier_calls", "unix_diag")
def test_unix_peer_is_found_without_permission_to_create_sockets(
    start_capture: StartCapture,
) -> None:
    """By then the command has given that up: host/privileges.py."""
    ours, theirs = socket.socketpair()
    with ours, theirs, reader(theirs.fileno()) as pid:
        wait_until_reading(pid, theirs.fileno())
        theirs.close()
        sample = start_capture(pid, "0.5").sample()
    (file,) = [each.file for each in slept(sample, pid) if each.reason == "socket_receive"]
    assert file is not None
    assert file.kind == "unix"
    assert os.getpid() in [peer.pid for peer in file.peers]


IN_A_NAMESPACE = """
import os, signal, socket, sys
signal.alarm(int(sys.argv[1]))
ours, theirs = socket.socketpair()
with socket.create_server(("127.0.0.1", 0)) as listener:
    client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]
other = os.fork()
if not other:
    signal.alarm(int(sys.argv[1]))
    for each in (ours, client, listener):
        each.close()
    signal.pause()
for each in (theirs, server):
    each.close()
print(other, flush=True)
if sys.argv[2] == "tcp":
    client.send(b"x")
    client.recv(1)
ours.recv(1)
"""


@pytest.mark.usefixtures("earlier_calls", "unix_diag")
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_peer_in_another_network_namespace_is_found(start_capture: StartCapture, kind: str) -> None:
    """As in a container."""
    words = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"')
    python = (sys.executable, "-c", IN_A_NAMESPACE, str(LIFE_S), kind)
    with subprocess.Popen((*words, *python), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        other = int(process.stdout.readline())
        try:
            call = f"{syscall_number('recvfrom')} "
            syscall = Path(f"/proc/{process.pid}/syscall")
            wait_until(lambda: syscall.read_text().startswith(call))
            sample = start_capture(process.pid, "0.5").sample()
        finally:
            os.kill(other, signal.SIGKILL)
            process.kill()
    (file,) = [each.file for each in slept(sample, process.pid) if each.reason == "socket_receive"]
    assert file is not None
    assert file.kind == kind
    assert [peer.pid for peer in file.peers] == [other]
    assert (file.last_sent_ns is not None) == (kind == "tcp")
