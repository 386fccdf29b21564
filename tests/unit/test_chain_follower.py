"""Whom the threads of other processes are followed for, and when they are forgotten."""

import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from kernel_delay.capture.chains import follower as module
from kernel_delay.capture.chains._chain_records import ffi, lib
from kernel_delay.capture.chains.follower import UNUSED_NS, Follower
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.loader._records import lib as session
from kernel_delay.model import ThreadTime
from tests.unit.samples import bare_thread

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent


class Programs:
    """The programs, without a kernel."""

    def __init__(self, pid: int) -> None:
        self.followed = set[int]()
        self.queue: list[ChainEvent] = []

    def follow(self, pid: int) -> bool:
        self.followed.add(pid)
        return True

    def forget(self, pid: int) -> None:
        self.followed.discard(pid)

    def note_states(self) -> None:
        """Nothing is reported."""

    def missed(self) -> int:
        return 0

    def events(self) -> "Iterator[ChainEvent]":
        taken, self.queue = self.queue, []
        yield from taken


@pytest.fixture
def sleepers() -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """Two processes that do nothing."""
    with subprocess.Popen(["sleep", "600"]) as first, subprocess.Popen(["sleep", "600"]) as second:
        yield first, second
        first.kill()
        second.kill()


def woken(programs: Programs, pid: int, waker: int) -> None:
    event = ffi.new("struct chain_event *")
    event.kind, event.state = lib.CHAIN_WOKEN, session.STATE_READY_WOKEN
    event.tid = event.process = pid
    event.waker = event.waker_process = waker
    event.waker_kind = session.WAKER_THREAD
    programs.queue.append(event)


def test_waker_is_followed_until_it_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = sleepers
    programs = Programs(client.pid)
    monkeypatch.setattr(module, "ChainPrograms", lambda pid: programs)
    follower = Follower((client.pid,), UnixSockets())
    woken(programs, client.pid, server.pid)
    follower.look()
    assert programs.followed == {client.pid, server.pid}
    now_ns = session.monotonic_ns()
    list(follower.chains((), now_ns, now_ns + 1))
    assert programs.followed == {client.pid, server.pid}
    list(follower.chains((), now_ns, now_ns + 2 * UNUSED_NS))
    assert programs.followed == {client.pid}
    woken(programs, client.pid, server.pid)
    follower.look()
    assert server.pid in programs.followed
    server.kill()
    server.wait()
    list(follower.chains((), now_ns, now_ns + 2))
    assert programs.followed == {client.pid}


def polled(programs: Programs, pid: int, at_ns: int, *, waker: int, kind: int) -> None:
    """It sleeps in a poll for 50 ns from then on, and runs for 5."""
    for now_ns, what, state in (
        (at_ns, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED),
        (at_ns + 50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN),
        (at_ns + 55, lib.CHAIN_GOT_CPU, session.STATE_RUNNING),
    ):
        event = ffi.new("struct chain_event *")
        event.now_ns, event.kind, event.state = now_ns, what, state
        event.tid = event.process = pid
        if what == lib.CHAIN_WOKEN:
            event.waker, event.waker_process, event.waker_kind = waker, waker, kind
        programs.queue.append(event)


def test_interrupted_poll_is_for_whoever_ends_it_at_last(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    programs = Programs(client)
    monkeypatch.setattr(module, "ChainPrograms", lambda pid: programs)
    monkeypatch.setattr(module, "sleep_reason", lambda names: "epoll")
    follower = Follower((client,), UnixSockets())
    polled(programs, client, 100, waker=7, kind=session.WAKER_HARD_IRQ)
    polled(programs, client, 160, waker=server, kind=session.WAKER_THREAD)
    times = dict.fromkeys(ThreadTime.__struct_fields__, 0) | {"blocked_ns": 100}
    thread = replace(bare_thread(client, "client"), time=ThreadTime(**times))
    ((_, shown),) = follower.chains([(client, thread)], 90, 220)
    assert shown.chain is not None
    assert [(part.threads[0].tid, part.ns) for part in shown.chain.parts] == [(server, 100)]


def test_wait_for_a_stopped_fuse_server_is_its(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    programs = Programs(client)
    monkeypatch.setattr(module, "ChainPrograms", lambda pid: programs)
    monkeypatch.setattr(module, "sleep_reason", lambda names: "fuse")
    monkeypatch.setattr(module, "syscall_name", {0: "read", 83: "mkdir"}.get)
    monkeypatch.setattr(module, "fuse_server", lambda device, likely: {40: server}.get(device))
    follower = Follower((client,), UnixSockets())
    reads(programs, client, 100, syscall=83)
    follower.look()
    assert programs.followed == {client}
    reads(programs, client, 200, syscall=0)
    follower.look()
    assert programs.followed == {client, server}
    stopped = ffi.new("struct chain_event *")
    stopped.now_ns, stopped.kind, stopped.state = 210, lib.CHAIN_SEEN, session.STATE_STOPPED
    stopped.tid = stopped.process = server
    programs.queue.append(stopped)
    times = dict.fromkeys(ThreadTime.__struct_fields__, 0) | {"blocked_ns": 90}
    thread = replace(bare_thread(client, "client"), time=ThreadTime(**times))
    ((_, shown),) = follower.chains([(client, thread)], 210, 300)
    assert shown.chain is not None
    (part,) = shown.chain.parts
    assert (part.threads[0].tid, part.state, part.ns) == (server, "stopped", 90)


def reads(programs: Programs, pid: int, at_ns: int, *, syscall: int) -> None:
    """It wakes up, and sleeps in a call from then on."""
    for kind, state in (
        (lib.CHAIN_GOT_CPU, session.STATE_RUNNING),
        (lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED),
    ):
        event = ffi.new("struct chain_event *")
        event.now_ns, event.kind, event.state = at_ns, kind, state
        event.tid = event.process = pid
        event.syscall, event.descriptor, event.inode, event.device = syscall, 3, 2, 40
        programs.queue.append(event)
