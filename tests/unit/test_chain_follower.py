"""Whom the threads of other processes are followed for, and when they are forgotten."""

import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kernel_delay.capture.chains import follower as module
from kernel_delay.capture.chains._chain_records import ffi, lib
from kernel_delay.capture.chains.follower import UNUSED_NS, Follower
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.loader._records import lib as session

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
