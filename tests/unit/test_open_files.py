"""What descriptors are of and who has the other ends: of pipes and sockets that the test opens."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from kernel_delay.capture.sleep_files import FileKey, with_files
from kernel_delay.host import open_files as holders_module
from kernel_delay.host.open_files import (
    INODE_MASK,
    End,
    describe,
    holders,
    is_asleep,
    unix,
    watched_now,
)
from kernel_delay.host.open_files.inet import InetSockets
from kernel_delay.host.open_files.unix import UnixSockets, parsed
from kernel_delay.host.process_memory import Patience
from kernel_delay.host.target import PROC
from kernel_delay.model import FilePeer, Sleep, SleepFile, SleepReason
from tests.posix_queues import new_queue
from tests.unit.samples import timed_thread
from tests.workload import stop, wait_until

PID, TID = os.getpid(), threading.get_native_id()


@contextmanager
def child_with(*kept: int) -> Iterator[int]:
    """A child that has these descriptors open and no other, until the test ends with it."""
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(60)
        for fd in range(256):
            if fd not in (*kept, ready_write):
                with suppress(OSError):
                    os.close(fd)
        os.write(ready_write, b"x")
        os.close(ready_write)
        while True:
            signal.pause()
    os.close(ready_write)
    os.read(ready_read, 1)
    os.close(ready_read)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def slept(fd: int, reason: SleepReason, syscall: str, inode: int | None = None) -> Sleep:
    number = os.fstat(fd).st_ino & INODE_MASK if inode is None else inode
    return Sleep(reason, syscall, (), False, 1, 1000, 1000, file=SleepFile(fd, number))


def file_of(sleep: Sleep, child: int = 0) -> SleepFile:
    """What is found out of the file of that sleep, of this thread's or of a child's only one."""
    thread = replace(timed_thread(child or TID, "test"), sleeps=(sleep,))
    unix_sockets = UnixSockets()
    ((_, found),) = with_files([(child or PID, thread)], unix_sockets)
    unix_sockets.close()
    (file,) = (each.file for each in found.sleeps)
    assert file is not None
    return file


def test_a_pipes_reader_waits_for_who_writes_to_it() -> None:
    reads, writes = os.pipe()
    with child_with(writes) as child:
        os.close(writes)
        file = file_of(slept(reads, "pipe", "read"))
    os.close(reads)
    assert (file.kind, file.name) == ("pipe", f"pipe:[{file.inode}]")
    assert [peer.pid for peer in file.peers] == [child]
    assert not file.more_peers


def test_connection_that_is_over_is_as_it_was_seen() -> None:
    number = 4242
    sleep = slept(0, "socket_receive", "recvfrom", number)
    thread = replace(timed_thread(TID, "test"), sleeps=(sleep,))
    was = SleepFile(0, number, "tcp", "a:1", "b:2", (FilePeer(9, "server"),), is_client=True)
    unix_sockets = UnixSockets()
    for seen, expected in (({FileKey(PID, 0, number, writes=False): was}, was), ({}, sleep.file)):
        ((_, found),) = with_files([(PID, thread)], unix_sockets, seen)
        assert found.sleeps[0].file == expected
    unix_sockets.close()


@pytest.mark.parametrize(("reason", "call"), [("pipe", "write"), ("epoll", "epoll_wait")])
def test_a_pipes_writer_waits_for_who_reads_it(reason: SleepReason, call: str) -> None:
    reads, writes = os.pipe()
    with child_with(reads) as child:
        os.close(reads)
        file = file_of(slept(writes, reason, call))
    os.close(writes)
    assert [peer.pid for peer in file.peers] == [child]


def test_who_was_stopped_later_had_ended_the_sleeps_in_epoll() -> None:
    reads, writes = os.pipe()
    with child_with(writes) as child:
        os.close(writes)
        stop(child)
        found = slept(reads, "pipe", "read"), slept(reads, "epoll", "epoll_wait")
        stopped = [file_of(each).peers[0].stopped for each in found]
    os.close(reads)
    assert stopped == [True, False]


def test_both_ends_in_one_process_are_its_own() -> None:
    reads, writes = os.pipe()
    file = file_of(slept(reads, "pipe", "read"))
    os.close(reads)
    os.close(writes)
    assert [peer.pid for peer in file.peers] == [PID]


def test_process_with_threads_may_write_to_its_own_pipe() -> None:
    reads, writes = os.pipe()
    has_ended = threading.Event()
    other = threading.Thread(target=has_ended.wait)
    other.start()
    with child_with(writes) as child:
        file = file_of(slept(reads, "pipe", "read"))
    has_ended.set()
    other.join()
    os.close(reads)
    os.close(writes)
    assert [peer.pid for peer in file.peers] == [child, PID]


def test_only_thread_does_not_write_to_its_own_pipe() -> None:
    reads, writes = os.pipe()
    with child_with(reads, writes) as reader, child_with(writes) as writer:
        os.close(writes)
        file = file_of(slept(reads, "pipe", "read"), reader)
    os.close(reads)
    assert [peer.pid for peer in file.peers] == [writer]


def test_relatives_of_a_process_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with a thread for each connection has as many ends, and its threads children."""
    family, asked = holders_module._family, []

    def asked_family(pid: int) -> list[int]:
        asked.append(pid)
        return family(pid)

    monkeypatch.setattr(holders_module, "_family", asked_family)
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(20)]
        for each in pairs:
            stack.enter_context(each[0])
            stack.enter_context(each[1])
        ends = [
            End(f"socket:[{inode}]", inode)
            for inode in (os.fstat(each[1].fileno()).st_ino for each in pairs)
        ]
        with child_with(*(each[1].fileno() for each in pairs)) as child:
            found = holders(dict.fromkeys(ends, ()), [PID]).of
    assert asked == [PID]
    assert [{peer.pid for peer in found[end]} for end in ends] == [{PID, child}] * 20


def test_a_stopped_process_at_the_other_end_is_seen() -> None:
    reads, writes = os.pipe()
    with child_with(writes) as child:
        os.close(writes)
        os.kill(child, signal.SIGSTOP)
        os.waitpid(child, os.WUNTRACED)
        file = file_of(slept(reads, "pipe", "read"))
        os.kill(child, signal.SIGCONT)
    os.close(reads)
    assert [(peer.pid, peer.stopped) for peer in file.peers] == [(child, True)]


def test_fifo_has_the_processes_at_its_other_end(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reads = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writes = os.open(path, os.O_WRONLY)
    with child_with(writes) as child:
        os.close(writes)
        file = file_of(slept(reads, "pipe", "read"))
    os.close(reads)
    assert (file.kind, file.name) == ("pipe", str(path))
    assert [peer.pid for peer in file.peers] == [child]


def test_a_unix_client_waits_for_its_server() -> None:
    name = f"\0kernel-delay-test-{PID}"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(name)
        listener.listen()
        client.connect(name)
        accepted, _ = listener.accept()
        with child_with(accepted.fileno()) as child:
            server = file_of(slept(accepted.fileno(), "socket_receive", "recvfrom"))
            accepted.close()
            file = file_of(slept(client.fileno(), "socket_receive", "recvfrom"))
    assert (file.kind, file.peer_address) == ("unix", f"@{name[1:]}")
    assert [peer.pid for peer in file.peers] == [child]
    assert (file.is_client, file.is_server) == (True, False)
    assert (server.is_client, server.is_server) == (False, True)
    assert [peer.pid for peer in server.peers] == [PID]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_tcp_client_on_loopback_waits_for_its_server(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if ":" in host and not Path("/proc/net/if_inet6").exists():
        pytest.skip("there is no IPv6")
    with socket.create_server((host, 0), family=family) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection((host, port)) as client:
            accepted, _ = listener.accept()
            with child_with(accepted.fileno()) as child:
                server = file_of(slept(accepted.fileno(), "socket_receive", "read"))
                accepted.close()
                file = file_of(slept(client.fileno(), "socket_receive", "read"))
            own_port = client.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    assert (file.kind, file.name) == ("tcp", f"{shown}:{own_port}")
    assert file.peer_address == f"{shown}:{port}"
    assert [peer.pid for peer in file.peers] == [child]
    assert (file.is_client, file.is_server) == (True, False)
    assert (server.is_client, server.is_server) == (False, True)


@pytest.mark.parametrize("sent", [0, 100])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_who_connected_is_known_when_nobody_listens_any_more(host: str, sent: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if ":" in host and not Path("/proc/net/if_inet6").exists():
        pytest.skip("there is no IPv6")
    with socket.create_server((host, 0), family=family) as listener:
        client = socket.create_connection((host, listener.getsockname()[1]))
        accepted, _ = listener.accept()
    with client, accepted:
        client.send(bytes(sent))
        accepted.send(bytes(10 * sent))

        def roles() -> list[tuple[bool, bool]]:
            files = [
                file_of(slept(each.fileno(), "socket_receive", "read"))
                for each in (client, accepted)
            ]
            return [(file.is_client, file.is_server) for file in files]

        # Until all of it is acknowledged that is not known.
        wait_until(lambda: (False, False) not in roles())
        assert roles() == [(True, False), (False, True)]
        # The kernel counts a FIN as a byte too: what it acknowledged shows no more.
        accepted.shutdown(socket.SHUT_WR)
        wait_until(lambda: roles()[1] == (False, False))
        assert roles() == [(True, False), (False, False)]


def test_a_server_of_ipv6_has_clients_of_ipv4() -> None:
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("there is no IPv6")
    server = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    with server as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = listener.accept()
            with child_with(accepted.fileno()) as child:
                accepted.close()
                file = file_of(slept(client.fileno(), "socket_receive", "read"))
    assert file.peer_address == f"127.0.0.1:{port}"
    assert [peer.pid for peer in file.peers] == [child]
    assert file.is_client


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_connection_that_nobody_accepts_is_for_who_listens(host: str) -> None:
    with socket.create_server((host, 0)) as listener, child_with(listener.fileno()) as child:
        port = listener.getsockname()[1]
        listener.close()
        with socket.create_connection(("127.0.0.1", port)) as client:
            file = file_of(slept(client.fileno(), "socket_receive", "read"))
    assert [peer.pid for peer in file.peers] == [child]
    assert file.is_client


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_who_listens_at_an_address_is_known(host: str) -> None:
    with socket.create_server((host, 0)) as listener:
        port = listener.getsockname()[1]
        inode = os.fstat(listener.fileno()).st_ino
        sockets = InetSockets(PROC / str(PID))
        assert sockets.listener(f"127.0.0.1:{port}") == inode
        assert sockets.listener(f"10.0.0.1:{port}") == (inode if host == "0.0.0.0" else 0)


def test_socket_that_connects_has_who_listens_without_room() -> None:
    with ExitStack() as closing:
        listener = closing.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()

        def connects() -> SleepFile | None:
            client = closing.enter_context(socket.socket())
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(address)
            ready = select.select([], [client], [], 0.1)[1]
            return None if ready else file_of(slept(client.fileno(), "socket_connect", "connect"))

        file = next(filter(None, (connects() for _ in range(10))))
    assert file.peer_address == "{}:{}".format(*address)
    assert [peer.pid for peer in file.peers] == [PID]
    assert file.is_client


def test_udp_socket_has_its_connected_peer() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.bind(("127.0.0.1", 0))
        client.connect(server.getsockname())
        file = file_of(slept(client.fileno(), "socket_receive", "recvfrom"))
        address = "{}:{}".format(*server.getsockname())
    assert (file.kind, file.peer_address) == ("udp", address)
    assert [peer.pid for peer in file.peers] == [PID]
    assert (file.is_client, file.is_server) == (False, False)


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """The master and the slave of a pseudo-terminal."""
    master, slave = os.openpty()
    yield master, slave
    for fd in (master, slave):
        with suppress(OSError):
            os.close(fd)


@pytest.mark.parametrize("end", [0, 1], ids=["master", "slave"])
@pytest.mark.parametrize(("reason", "call"), [("terminal", "read"), ("poll", "ppoll")])
def test_either_end_of_a_terminal_waits_for_who_has_the_other(
    end: int, reason: SleepReason, call: str
) -> None:
    with terminal() as ends, terminal() as others:
        own, other = ends[end], ends[1 - end]
        with child_with(other) as child, child_with(*others):
            os.close(other)
            file = file_of(slept(own, reason, call))
    assert file.kind == "device"
    assert [peer.pid for peer in file.peers] == [child]
    assert not file.more_peers


# A terminal of the same number as it has in the file system that is mounted everywhere.
OTHER_TERMINAL = """
import os, sys
while True:
    master = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY)
    (index,) = (line.split()[1] for line in open(f"/proc/self/fdinfo/{master}") if "tty" in line)
    if index == sys.argv[1]:
        break
print(master, flush=True)
sys.stdin.read()
"""


def test_terminals_of_a_container_have_numbers_of_their_own(root_user: None) -> None:
    with terminal() as (master, slave):
        number = Path(os.ttyname(slave)).name
        mounting = 'mount -t devpts -o ptmxmode=666 devpts /dev/pts && exec "$@"'
        words = [sys.executable, "-c", OTHER_TERMINAL, number]
        command = ["unshare", "--mount", "sh", "-c", mounting, "sh", *words]
        with (
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other,
            child_with(master) as child,
        ):
            assert other.stdout is not None
            theirs = int(other.stdout.readline())
            inode = os.stat(f"/proc/{other.pid}/fd/{theirs}").st_ino
            os.close(master)
            files = [
                file_of(slept(slave, "terminal", "read")),
                file_of(slept(theirs, "terminal", "read", inode), other.pid),
            ]
            other.communicate()
    assert [[peer.pid for peer in file.peers] for file in files] == [[child], []]


def test_terminal_is_of_the_mounts_that_it_was_opened_in(root_user: None) -> None:
    with terminal() as (master, slave):
        mounting = "mount -t devpts -o ptmxmode=666 devpts /dev/pts && echo && exec cat"
        command = ["unshare", "--mount", "sh", "-c", mounting]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(master,)
        ) as emulator:
            assert emulator.stdout is not None
            emulator.stdout.readline()
            os.close(master)
            file = file_of(slept(slave, "terminal", "read"))
            emulator.communicate()
    assert [peer.pid for peer in file.peers] == [emulator.pid]


# It has a terminal, and no file of its /dev is ever found.
HUNG_DEVICES = """
import ctypes, os, signal
master, fuse = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY), os.open("/dev/fuse", os.O_RDWR)
signal.alarm(20)
libc = ctypes.CDLL(None)
assert not libc.unshare(0x20000)
assert not libc.mount(b"none", b"/", None, 0x44000, None)
options = b"fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other" % fuse
assert not libc.mount(b"hung", b"/dev", b"fuse", 0, options)
print(flush=True)
signal.pause()
"""


def test_hung_devices_of_another_process_are_not_waited_for(root_user: None) -> None:
    if not Path("/dev/fuse").exists():
        pytest.skip("no FUSE here")
    with terminal() as (master, slave):
        command = [sys.executable, "-c", HUNG_DEVICES]
        with (
            child_with(master) as child,
            subprocess.Popen(command, stdout=subprocess.PIPE) as hung,
        ):
            assert hung.stdout is not None
            hung.stdout.readline()
            os.close(master)
            file = file_of(slept(slave, "terminal", "read"))
            assert hung.poll() is None
            hung.kill()
    assert [peer.pid for peer in file.peers] == [child]


# Its terminal is known by no other name.
HAS_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
own = os.open("/dev/tty", os.O_RDWR)
os.dup2(int(sys.argv[1]), 0)
print(flush=True)
os.read(0, 1)
"""


def test_own_terminal_is_known_by_its_number() -> None:
    reads, writes = os.pipe()
    with terminal() as (master, slave):
        command = [sys.executable, "-c", HAS_OWN_TERMINAL, str(reads)]
        with subprocess.Popen(
            command,
            stdin=slave,
            stdout=subprocess.PIPE,
            pass_fds=(reads,),
            start_new_session=True,
        ) as program:
            assert program.stdout is not None
            program.stdout.readline()
            os.close(slave)
            file = file_of(slept(master, "terminal", "read"))
            os.write(writes, b"x")
    os.close(reads)
    os.close(writes)
    assert [peer.pid for peer in file.peers] == [program.pid]


def test_eventfd_has_who_shares_it() -> None:
    first, second = os.eventfd(0), os.eventfd(0)
    with child_with(first) as child, child_with(second):
        sleeps = slept(first, "eventfd", "read"), slept(first, "poll", "ppoll")
        files = [file_of(each) for each in sleeps]
    os.close(first)
    os.close(second)
    assert [peer.pid for peer in files[0].peers if peer.pid != PID] == [child]
    assert not files[1].peers


def test_posix_queue_has_who_shares_it() -> None:
    queues = [new_queue(f"/kd-{PID}-{number}") for number in range(2)]
    with child_with(queues[0]) as child, child_with(queues[1]):
        file = file_of(slept(queues[0], "semaphore", "mq_timedreceive"))
    for queue in queues:
        os.close(queue)
    assert [peer.pid for peer in file.peers if peer.pid != PID] == [child]


def test_pidfd_has_its_process() -> None:
    process = subprocess.Popen(["sleep", "600"])
    pidfd = os.pidfd_open(process.pid)
    try:
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: file_of(slept(pidfd, "poll", "poll")).peers[0].stopped)
        file = file_of(slept(pidfd, "poll", "poll"))
    finally:
        process.kill()
        process.wait()
    assert [peer.pid for peer in file.peers] == [process.pid]
    assert file_of(slept(pidfd, "poll", "poll")).peers == ()
    os.close(pidfd)


def test_a_listening_socket_has_no_other_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        file = file_of(slept(listener.fileno(), "socket_receive", "accept"))
        assert file.name == "{}:{}".format(*listener.getsockname())
    assert (file.kind, file.peer_address, file.peers) == ("tcp", None, ())


def test_a_file_is_known_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with path.open("wb") as file:
        found = file_of(slept(file.fileno(), "disk", "fsync"))
    assert (found.kind, found.name) == ("file", str(path))


def test_ends_that_all_inherited_are_another_process_s() -> None:
    """As of a socketpair, of which neither has closed the other's end after a fork."""
    own, other = socket.socketpair()
    both = own.fileno(), other.fileno()
    with child_with(*both) as asker, child_with(*both) as child, own:
        other.close()
        file = file_of(slept(own.fileno(), "socket_receive", "recvfrom"), asker)
        assert [peer.pid for peer in file.peers] == [child]


def test_a_socket_that_siblings_inherited_is_of_several() -> None:
    own, other = socket.socketpair()
    with child_with(other.fileno()) as first, child_with(other.fileno()) as second, own:
        other.close()
        file = file_of(slept(own.fileno(), "socket_receive", "recvfrom"))
        assert {peer.pid for peer in file.peers} == {first, second}


def test_siblings_that_were_not_looked_at_may_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = socket.socketpair()
    with child_with(other.fileno()) as first, child_with(other.fileno()), own:
        other.close()
        end = End("socket:[1]", 1)
        peers = [FilePeer(first, "")]
        assert holders_module._add_families({end: peers}, 0.0) == {end}
        assert peers == [FilePeer(first, "")]


def test_a_stopped_process_stands_first() -> None:
    reads, writes = os.pipe()
    with child_with(writes) as first, child_with(writes) as second:
        os.close(writes)
        os.kill(second, signal.SIGSTOP)
        os.waitpid(second, os.WUNTRACED)
        file = file_of(slept(reads, "pipe", "read"))
        assert [(peer.pid, peer.stopped) for peer in file.peers] == [(second, True), (first, False)]
        os.kill(second, signal.SIGCONT)
    os.close(reads)


def test_descriptor_reused_for_another_file_is_unknown() -> None:
    reads, writes = os.pipe()
    inode = os.fstat(reads).st_ino & INODE_MASK
    others = os.pipe()
    os.dup2(others[0], reads)
    assert file_of(slept(reads, "pipe", "read", inode)) == SleepFile(reads, inode)
    os.close(reads)
    assert describe(PID, TID, reads, inode) is None
    for fd in (writes, *others):
        os.close(fd)


def test_what_does_not_fit_the_reason_is_not_known() -> None:
    reads, writes = os.pipe()
    assert file_of(slept(reads, "socket_receive", "read")).kind == "unknown"
    os.close(reads)
    os.close(writes)


@pytest.mark.parametrize("fd", [20, 70])
def test_descriptors_of_a_select_are_in_its_sets(fd: int) -> None:
    """Those to read from and to write to; a set has words of 64 bits."""
    code = (
        "import os, select; reads, writes = os.pipe(); os.dup2(reads, {0}); os.dup2(writes, {1});"
        " os.set_blocking(writes, False)\n"
        "while select.select([], [writes], [], 0)[1]: os.write(writes, bytes(4096))\n"
        "others = os.pipe(); os.dup2(others[0], {0}); select.select([{0}], [{1}], [])"
    )
    command = [sys.executable, "-c", code.format(fd, fd + 1)]
    with subprocess.Popen(command) as process:
        wait_until(lambda: bool(watched_now(process.pid, process.pid, Patience())))
        found = watched_now(process.pid, process.pid, Patience())
        process.kill()
    assert found == [fd, fd + 1]


@pytest.mark.parametrize(("code", "expected"), [("time.sleep(600)", False), ("", True)])
def test_process_sleeps_if_all_its_threads_do(code: str, expected: bool) -> None:
    script = (
        "import select, sys, threading, time;"
        f" threading.Thread(target=lambda: {code or 'threading.Event().wait()'}).start();"
        " print(flush=True); select.poll().poll()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tasks = PROC / str(process.pid) / "task"
        wait_until(lambda: all(_sleeps(task) for task in tasks.iterdir()))
        found = is_asleep(process.pid)
        process.kill()
    assert found == expected
    assert not is_asleep(process.pid)


def _sleeps(task: Path) -> bool:
    return (task / "syscall").read_text().split()[0].isdecimal()


def test_a_search_that_is_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders_module, "MOST_LINKS", -1)
    end = End("pipe:[1]", 1, writes=True)
    found = holders({end: ()})
    assert found.of == {end: []}
    assert not found.are_all


def test_sockets_that_are_not_there_have_no_ends() -> None:
    assert InetSockets(PROC / str(PID)).ends("tcp", 1) is None
    assert InetSockets(PROC / str(2**22 + 1)).ends("tcp", 1) is None
    unix_sockets = UnixSockets()
    assert unix_sockets.find(1) is None
    unix_sockets.close()


@pytest.mark.parametrize("answer", [b"", bytes(15), bytes(36), b"\xff" * 64])
def test_malformed_kernel_answer_is_no_socket(answer: bytes) -> None:
    assert parsed(answer, 1) is None


def test_names_that_are_not_utf8_can_be_written(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.fifo"
    os.mkfifo(path)
    reads, writes = os.open(path, os.O_RDONLY | os.O_NONBLOCK), os.open(path, os.O_WRONLY)
    with child_with(writes) as child:
        fifo = file_of(slept(reads, "pipe", "read"))
    os.close(reads)
    os.close(writes)
    assert fifo.name == f"{tmp_path}/\\xff.fifo"
    assert child in [peer.pid for peer in fifo.peers]
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(b"\0\xfe-%d" % PID)
        listener.listen()
        client.connect(listener.getsockname())
        with listener.accept()[0]:
            server = file_of(slept(client.fileno(), "socket_receive", "recvfrom"))
    assert server.peer_address == f"@\\xfe-{PID}"
    assert msgspec.json.encode([fifo, server])


@pytest.mark.parametrize("pid", [PID, 2**22 + 1], ids=["itself", "nobody"])
def test_without_network_namespaces_sockets_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pid: int
) -> None:
    """CONFIG_NET_NS is off, or /proc is not there."""
    monkeypatch.setattr(unix, "OWN_NETWORK", str(tmp_path / "net"))
    ours, theirs = socket.socketpair()
    with ours, theirs, closing(UnixSockets((pid,))) as sockets:
        found = sockets.find(os.fstat(ours.fileno()).st_ino)
        assert found is not None
        assert found.peer_inode == os.fstat(theirs.fileno()).st_ino
