"""Whom the threads of other processes are followed for, and when they are forgotten."""

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.chain_roots import MOST_HOPS
from kernel_delay.capture import chains
from kernel_delay.capture.chains import (
    BEHIND_NS,
    MOST_LEFT,
    UNUSED_NS,
    Follower,
    peers,
    places,
    slices,
)
from kernel_delay.capture.chains._chain_records import ffi, lib
from kernel_delay.capture.chains.followed import MOST_FORKED
from kernel_delay.capture.chains.programs import ChainPrograms
from kernel_delay.capture.chains.siblings import Siblings
from kernel_delay.capture.chains.slices import Ender, Place, Was
from kernel_delay.capture.chains.states import ThreadStates
from kernel_delay.capture.sleep_files import FileKey
from kernel_delay.host.open_files.tcp_info import Turn
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.target import children_of, read_stat
from kernel_delay.loader._records import lib as session
from kernel_delay.model import ChainThread, FilePeer, SleepFile, SleepReason, Thread, ThreadTime
from tests.system_calls import syscall_number
from tests.unit.samples import bare_thread
from tests.workload import sleeping, wait_until

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent


class Programs(ChainPrograms):
    """The programs, without a kernel."""

    def __init__(self, pid: int) -> None:
        self.followed = set[int]()
        self.follows_forks = True
        self.queue: list[ChainEvent] = []

    def follow(self, pid: int) -> bool:
        self.followed.add(pid)
        return True

    def adopt(self, pid: int, tgid: int) -> None:
        self.followed.add(pid)

    def forget(self, pid: int) -> None:
        self.followed.discard(pid)

    def leave(self, tgid: int) -> None:
        self.followed.discard(tgid)

    def follow_forks(self, *, are_followed: bool) -> None:
        self.follows_forks = are_followed

    def note_states(self) -> None:
        """Nothing is reported."""

    def missed(self) -> int:
        return 0

    def left(self) -> int:
        return len(self.queue)

    def events(self, until_ns: int) -> "Iterator[ChainEvent]":
        while self.queue and self.queue[0].now_ns <= until_ns:
            yield self.queue.pop(0)


@pytest.fixture
def sleepers() -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """Two processes that do nothing."""
    with sleeping() as first, sleeping() as second:
        yield first, second


def sleeping_for(monkeypatch: pytest.MonkeyPatch, pid: int, reason: SleepReason) -> Programs:
    """The programs of a follower of `pid`, for which all sleep for that reason."""
    programs = Programs(pid)
    monkeypatch.setattr(places, "sleep_reason", lambda names: reason)
    return programs


def blocked(pid: int, ns: int) -> Thread:
    times = dict.fromkeys(ThreadTime.__struct_fields__, 0) | {"blocked_ns": ns}
    return replace(bare_thread(pid, "client"), time=ThreadTime(**times))


def woken(programs: Programs, pid: int, waker: int) -> None:
    event = ffi.new("struct chain_event *")
    event.kind, event.state = lib.CHAIN_WOKEN, session.STATE_READY_WOKEN
    event.tid = event.process = pid
    event.waker = event.waker_process = waker
    event.waker_kind = session.WAKER_THREAD
    programs.queue.append(event)


def test_waker_is_followed_until_it_is_not_waited_for(
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = sleepers
    programs = Programs(client.pid)
    follower = Follower(programs, (client.pid,), UnixSockets())
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


def test_children_are_followed_as_long_as_they_live(
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    server, child = sleepers
    programs = Programs(server.pid)
    follower = Follower(programs, (server.pid,), UnixSockets())
    follower.follow_children((server.pid, child.pid))
    follower.look()
    assert programs.followed == {server.pid, child.pid}
    now_ns = session.monotonic_ns()
    # Nobody waits for it, and it is measured all the same.
    list(follower.chains((), now_ns, now_ns + 2 * UNUSED_NS))
    assert programs.followed == {server.pid, child.pid}
    child.kill()
    child.wait()
    list(follower.chains((), now_ns, now_ns + 1))
    assert programs.followed == {server.pid}


def forked(programs: Programs, pid: int, parent: int, at_ns: int) -> None:
    """It is forked then, by a thread that may be of a process that is not followed any more."""
    event = ffi.new("struct chain_event *")
    event.now_ns, event.kind, event.state = at_ns, lib.CHAIN_FORKED, session.STATE_READY_WOKEN
    event.tid = event.process = event.tgid = pid
    event.waker = event.waker_process = parent
    event.comm[0:2] = [b"s", b"h"]
    programs.followed.add(pid)
    programs.queue.append(event)


def lives(programs: Programs, child: int, parent: int, at_ns: int, turn: int = 1) -> None:
    """It is forked then, runs for 80 ns, and ends its parent's wait by its end: its n-th."""
    if turn == 1:
        runs(programs, parent, parent, at_ns - 10)
    forked(programs, child, parent, at_ns - 5)
    left, woken, got = lib.CHAIN_LEFT_CPU, lib.CHAIN_WOKEN, lib.CHAIN_GOT_CPU
    for now_ns, tid, kind, state, switches in (
        (at_ns, parent, left, session.STATE_BLOCKED, turn),
        (at_ns + 10, child, got, session.STATE_RUNNING, 0),
        (at_ns + 90, parent, woken, session.STATE_READY_WOKEN, turn),
        (at_ns + 91, child, left, session.STATE_NOT_ALIVE, 1),
        (at_ns + 95, parent, got, session.STATE_RUNNING, turn),
    ):
        event = ffi.new("struct chain_event *")
        event.now_ns, event.kind, event.state, event.switches = now_ns, kind, state, switches
        event.tid = event.process = tid
        event.comm[0:2] = [b"l", b"s"]
        if kind == woken:
            event.waker = event.waker_process = child
            event.waker_kind = session.WAKER_THREAD
        programs.queue.append(event)


def test_child_that_is_gone_before_anybody_looks_is_the_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has the name of the program that it executed."""
    client, child = os.getpid(), 2**22
    programs = sleeping_for(monkeypatch, client, "child")
    follower = Follower(programs, (client,), UnixSockets())
    lives(programs, child, client, 100)
    ((_, shown),) = follower.chains([(client, blocked(client, 90))], 90, 220)
    assert shown.chain is not None
    found = [(part.threads, part.state, part.ns) for part in shown.chain.parts]
    thread = ChainThread(child, child, "ls", process="ls")
    assert found == [((thread,), "running", 80), ((thread,), "runnable", 10)]
    assert programs.followed == {client}


@pytest.mark.parametrize(("left", "are_taken"), [(MOST_LEFT, True), (MOST_LEFT + 1, False)])
def test_much_that_is_far_behind_a_window_is_left_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch, left: int, are_taken: bool
) -> None:
    """To read it all would take as long as it takes others to write as much again."""
    client, child = os.getpid(), 2**22
    programs = sleeping_for(monkeypatch, client, "child")
    follower = Follower(programs, (client,), UnixSockets())
    lives(programs, child, client, 100)
    for n in range(left):
        runs(programs, client, client, 220 + BEHIND_NS + 1 + n)
    ((_, shown),) = follower.chains([(client, blocked(client, 90))], 90, 220)
    assert shown.chain is not None
    assert [part.state for part in shown.chain.parts] == ["running", "runnable"]
    assert (not programs.queue) == are_taken
    # Who has ended may be of what is left.
    assert programs.followed == ({client} if are_taken else {client, child})
    follower.look()
    assert not programs.queue


def test_children_that_nobody_has_waited_for_are_gone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that were left to a first process that takes its time."""
    client = os.getpid()
    programs = sleeping_for(monkeypatch, client, "child")
    follower = Follower(programs, (client,), UnixSockets())
    with subprocess.Popen(["true"]) as first, subprocess.Popen(["true"]) as second:
        wait_until(lambda: read_stat(first.pid).state == "Z", "the end of one")
        wait_until(lambda: read_stat(second.pid).state == "Z", "the end of the other")
        lives(programs, first.pid, client, 100)
        lives(programs, second.pid, client, 300, 2)
        ((_, shown),) = follower.chains([(client, blocked(client, 180))], 90, 420)
    assert shown.chain is not None
    found = [(part.threads, part.state, part.ns) for part in shown.chain.parts]
    several = (ChainThread(0, 0, "ls"),)
    assert found == [(several, "running", 160), (several, "runnable", 20)]


def test_children_of_a_storm_of_forks_are_not_all_followed(
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    programs = Programs(client)
    follower = Follower(programs, (client,), UnixSockets())
    for n in range(MOST_FORKED - 1):
        forked(programs, 2**22 + n, client, 100 + n)
    follower.look()
    assert programs.follows_forks
    forked(programs, server, client, 2_000)
    follower.look()
    assert not programs.follows_forks
    ((_, shown),) = follower.chains([(client, blocked(client, 90))], 90, 220)
    assert shown.chain is not None
    assert shown.chain.is_bounded
    # By the next window there is room again, and those that are gone are forgotten.
    assert programs.follows_forks
    assert programs.followed == {client, server}


def test_child_of_a_process_that_is_not_followed_is_left(
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    """Its parent was forgotten meanwhile, or it is too many hops away."""
    client, child = (each.pid for each in sleepers)
    programs = Programs(client)
    follower = Follower(programs, (client,), UnixSockets())
    forked(programs, child, os.getpid(), 100)
    follower.look()
    assert programs.followed == {client}
    parents = [client, *range(2**22, 2**22 + MOST_HOPS - 1), child]
    for parent, pid in pairwise(parents):
        forked(programs, pid, parent, 100)
    follower.look()
    assert programs.followed == set(parents)
    forked(programs, 2**21, child, 100)
    follower.look()
    assert programs.followed == set(parents)


def test_what_is_left_of_a_process_that_was_forgotten_is_passed_over(
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    programs = Programs(client)
    follower = Follower(programs, (client,), UnixSockets())
    woken(programs, client, server)
    follower.look()
    goes_to_sleep(programs, server, server, 10)
    now_ns = session.monotonic_ns()
    list(follower.chains((), now_ns, now_ns + 2 * UNUSED_NS))
    assert programs.followed == {client}
    goes_to_sleep(programs, server, server, 20)
    follower.look()
    assert {states.process for states in follower.states()} == {client}


def test_thread_whose_end_was_missed_is_forgotten(
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, _ = (each.pid for each in sleepers)
    programs = Programs(client)
    follower = Follower(programs, (client,), UnixSockets())
    for tid in (client, 2**22):
        goes_to_sleep(programs, client, tid, 10)
    follower.look()
    assert {states.tid for states in follower.states()} == {client, 2**22}
    list(follower.chains((), 100, 200))
    assert {states.tid for states in follower.states()} == {client}


def test_number_of_a_process_that_has_ended_may_be_that_of_a_child(
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    programs = Programs(client)
    follower = Follower(programs, (client,), UnixSockets())
    for tid in (server, server + 1):
        forked(programs, server, client, 10)
        goes_to_sleep(programs, server, tid, 20)
    follower.look()
    found = {(states.tid, states.name) for states in follower.states() if states.process == server}
    assert found == {(server, "sh"), (server + 1, "")}


def test_file_that_a_child_sleeps_on_for_long_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    """Of most it does not matter: they are gone soon."""
    client, child = (each.pid for each in sleepers)
    programs = sleeping_for(monkeypatch, client, "pipe")
    asked = list[int]()
    monkeypatch.setattr(peers.Peers, "note_place", lambda self, pid, tid, place: asked.append(pid))
    follower = Follower(programs, (client,), UnixSockets())
    forked(programs, child, client, 10)
    with monkeypatch.context() as longer:
        longer.setattr(chains, "LASTS_NS", 3600 * 10**9)
        goes_to_sleep(programs, child, child, session.monotonic_ns())
        follower.look()
    assert not asked
    forked(programs, child, client, 10)
    goes_to_sleep(programs, child, child, 20)
    follower.look()
    assert asked == [child]


def test_wait_for_children_that_goes_on_is_for_the_last_of_them(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    """As a shell waits for its program, while others end that it had begun in the background.

    Who forks in between waits for another one.
    """
    client, child = (each.pid for each in sleepers)
    programs = sleeping_for(monkeypatch, client, "child")
    monkeypatch.setattr(slices, "syscall_name", lambda number: "wait4")
    follower = Follower(programs, (client,), UnixSockets())
    polled(programs, client, 100, waker=7, kind=session.WAKER_THREAD, switches=1)
    polled(programs, client, 160, waker=8, kind=session.WAKER_THREAD, switches=2)
    forked(programs, child, client, 217)
    polled(programs, client, 220, waker=child, kind=session.WAKER_THREAD, switches=3)
    ((_, shown),) = follower.chains([(client, blocked(client, 150))], 90, 280)
    assert shown.chain is not None
    waited: Counter[int] = Counter()
    for part in shown.chain.parts:
        waited[part.threads[0].tid] += part.ns
    assert waited == {8: 100, child: 50}


def test_waits_for_one_child_after_the_other_are_each_for_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which one waitid(2) asks for the events do not have: the next call is for another."""
    client = os.getpid()
    programs = sleeping_for(monkeypatch, client, "child")
    monkeypatch.setattr(slices, "syscall_name", lambda number: "waitid")
    monkeypatch.setattr(slices, "P_ALL", 7)
    follower = Follower(programs, (client,), UnixSockets())
    polled(programs, client, 100, waker=8, kind=session.WAKER_THREAD, switches=1)
    polled(programs, client, 160, waker=9, kind=session.WAKER_THREAD, switches=2)
    ((_, shown),) = follower.chains([(client, blocked(client, 100))], 90, 220)
    assert shown.chain is not None
    assert {part.threads[0].tid: part.ns for part in shown.chain.parts} == {8: 50, 9: 50}


def test_thread_that_waits_for_the_reader_is_not_its_writer() -> None:
    """A program writes to its child's pipe in a thread of its own, and waits for the child."""
    parent, child = 50, 60
    main, writer = ThreadStates(parent, parent, "main"), ThreadStates(parent + 1, parent, "writer")
    reader = ThreadStates(child, child, "cat")
    event = ffi.new("struct chain_event *")
    event.now_ns, event.kind, event.state = 90, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED
    event.switches = 1
    for states, place in ((main, Place("child")), (writer, Place("clock"))):
        states.note(event, place)
    all_states = {each.tid: each for each in (main, writer, reader)}
    was = Was(100, 200, "blocked", Place("poll"), awaited=parent, lasts=True)
    found = peers.Peers({parent: 0, child: 1}, UnixSockets())
    assert found.ender(reader, was, all_states).gap == "threads"
    main.judge(child)
    assert found.ender(reader, was, all_states) == Ender(writer.tid, process=parent)


def test_measured_child_is_followed_as_such(
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    server, child = (each.pid for each in sleepers)
    programs = Programs(server)
    follower = Follower(programs, (server,), UnixSockets())
    forked(programs, child, server, 100)
    follower.look()
    follower.follow_children((server, child))
    now_ns = session.monotonic_ns()
    list(follower.chains((), now_ns, now_ns + 2 * UNUSED_NS))
    assert programs.followed == {server, child}


def polled(
    programs: Programs,
    pid: int,
    at_ns: int,
    *,
    waker: int,
    kind: int,
    switches: int = 0,
    ended_child: int = 0,
) -> None:
    """It sleeps in a poll for 50 ns from then on, and runs for 5.

    What it did before is lost unless it had left a CPU as often as it has then by `switches`.
    """
    for now_ns, what, state in (
        (at_ns, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED),
        (at_ns + 50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN),
        (at_ns + 55, lib.CHAIN_GOT_CPU, session.STATE_RUNNING),
    ):
        event = ffi.new("struct chain_event *")
        event.now_ns, event.kind, event.state = now_ns, what, state
        event.tid = event.process = pid
        event.switches = switches
        if what == lib.CHAIN_WOKEN:
            event.waker, event.waker_process, event.waker_kind = waker, waker, kind
            event.ended_child = ended_child
        programs.queue.append(event)


@pytest.mark.parametrize(
    ("is_own", "forks", "waited"),
    [
        (True, True, {7: 50, 8: 50}),
        # It polls again at once: what for is not over.
        (True, False, {8: 100}),
        # It may wait for the other's answer still.
        (False, True, {0: 50, 8: 50}),
    ],
)
def test_poll_of_its_own_files_is_for_the_child_that_ends_it(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
    is_own: bool,
    forks: bool,
    waited: dict[int, int],
) -> None:
    """As of one that a handler of SIGCHLD writes to."""
    client, other = (each.pid for each in sleepers)
    peer = FilePeer(client if is_own else other, "self")
    programs = polls(monkeypatch, client, (SleepFile(3, 13, "pipe", "", None, (peer,)),))
    follower = Follower(programs, (client,), UnixSockets())
    goes_to_sleep(programs, client, client, 50)
    follower.look()
    signal, thread = session.WAKER_UNKNOWN, session.WAKER_THREAD
    polled(programs, client, 100, waker=7, kind=signal, switches=2, ended_child=7)
    if forks:
        forked(programs, 2**22, client, 157)
    polled(programs, client, 160, waker=8, kind=thread, switches=3)
    ((_, shown),) = follower.chains([(client, blocked(client, 100))], 90, 220)
    assert shown.chain is not None
    found = {part.threads[0].tid if part.threads else 0: part.ns for part in shown.chain.parts}
    assert found == waited


def test_interrupted_poll_is_for_whoever_ends_it_at_last(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    programs = sleeping_for(monkeypatch, client, "epoll")
    follower = Follower(programs, (client,), UnixSockets())
    polled(programs, client, 100, waker=7, kind=session.WAKER_HARD_IRQ)
    polled(programs, client, 160, waker=server, kind=session.WAKER_THREAD)
    thread = blocked(client, 100)
    ((_, shown),) = follower.chains([(client, thread)], 90, 220)
    assert shown.chain is not None
    assert [(part.threads[0].tid, part.ns) for part in shown.chain.parts] == [(server, 100)]


def test_a_time_out_that_led_to_an_answer_is_the_timer_s(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    """As of a server that answers by its own timer, and is asked by somebody else then."""
    client, server = (each.pid for each in sleepers)
    programs = sleeping_for(monkeypatch, client, "epoll")
    follower = Follower(programs, (server, client), UnixSockets())
    polled(programs, server, 100, waker=0, kind=session.WAKER_HARD_IRQ, switches=1)
    answer = ffi.new("struct chain_event *")
    answer.now_ns, answer.kind, answer.state = 157, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN
    answer.tid = answer.process = client
    answer.waker = answer.waker_process = server
    answer.waker_kind = session.WAKER_THREAD
    programs.queue.append(answer)
    polled(programs, server, 160, waker=7, kind=session.WAKER_THREAD, switches=2)
    ((_, shown),) = follower.chains([(server, blocked(server, 100))], 90, 220)
    assert shown.chain is not None
    ended = {part.threads and part.threads[0].tid: part.ns for part in shown.chain.parts}
    assert ended == {(): 50, 7: 50}


def test_time_outs_of_a_futex_are_for_whoever_ends_it_at_last(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    """As for Python's interpreter lock. One that nobody ends is a timer's."""
    client, holder = (each.pid for each in sleepers)
    programs = sleeping_for(monkeypatch, client, "futex")
    follower = Follower(programs, (client,), UnixSockets())
    polled(programs, client, 100, waker=0, kind=session.WAKER_HARD_IRQ)
    polled(programs, client, 160, waker=holder, kind=session.WAKER_THREAD)
    polled(programs, client, 220, waker=0, kind=session.WAKER_HARD_IRQ)
    ((_, shown),) = follower.chains([(client, blocked(client, 150))], 90, 280)
    assert shown.chain is not None
    found = [(part.threads and part.threads[0].tid, part.reason) for part in shown.chain.parts]
    assert found == [(holder, "unknown"), ((), "clock")]


def test_wait_for_a_stopped_fuse_server_is_its(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    programs = sleeping_for(monkeypatch, client, "fuse")
    monkeypatch.setattr(places, "syscall_name", {0: "read", 83: "mkdir"}.get)
    monkeypatch.setattr(peers, "fuse_server", lambda device, likely: {40: server}.get(device))
    follower = Follower(programs, (client,), UnixSockets())
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
    thread = blocked(client, 90)
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


WAIT4 = 61
"""On x86-64; on another machine it is another call, which does not matter here."""


@pytest.mark.parametrize(("children", "is_followed"), [(1, True), (2, False)])
def test_the_only_child_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, children: int, is_followed: bool
) -> None:
    begin = "sleep 600 & " * children
    with subprocess.Popen(["sh", "-c", f"{begin} wait"]) as shell:
        wait_until(lambda: len(children_of(shell.pid)) == children, "its children")
        started = children_of(shell.pid)
        programs = sleeping_for(monkeypatch, shell.pid, "child")
        follower = Follower(programs, (shell.pid,), UnixSockets())
        reads(programs, shell.pid, 100, syscall=WAIT4)
        follower.look()
        assert programs.followed == {shell.pid, *(started if is_followed else ())}
        for pid in started:
            os.kill(pid, signal.SIGKILL)


LISTENS = SleepFile(3, 13, "tcp", "127.0.0.1:80")
CLIENT = SleepFile(4, 14, "tcp", "127.0.0.1:80", "127.0.0.1:50000", (FilePeer(9, "curl"),))
SERVER = SleepFile(5, 15, "tcp", "127.0.0.1:50001", "127.0.0.1:81", is_client=True)


@pytest.mark.parametrize(
    ("owes", "asked", "is_followed"),
    [
        ("own", "other", True),
        ("other", "other", False),
        (None, "other", False),
        ("own", "own", False),
        ("own", None, False),
    ],
)
def test_server_is_waited_for_that_was_asked_for_a_client(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
    owes: Turn | None,
    asked: Turn | None,
    is_followed: bool,
) -> None:
    proxy, server = (each.pid for each in sleepers)
    to_server = replace(SERVER, peers=(FilePeer(server, "app"),))
    turns = {CLIENT: owes, to_server: asked}
    programs = polls(monkeypatch, proxy, (LISTENS, CLIENT, to_server))
    monkeypatch.setattr(peers, "turn", lambda ask, file: turns[file])
    follower = Follower(programs, (proxy,), UnixSockets())
    goes_to_sleep(programs, proxy, proxy, 100)
    follower.look()
    assert (server in programs.followed) == is_followed


def test_asked_server_is_not_known_beside_a_unix_socket(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    proxy, server = (each.pid for each in sleepers)
    to_server = replace(SERVER, peers=(FilePeer(server, "app"),))
    database = SleepFile(6, 16, "unix", "", "/run/db", (FilePeer(server, "db"),), is_client=True)
    programs = polls(monkeypatch, proxy, (LISTENS, CLIENT, to_server, database))
    monkeypatch.setattr(peers, "turn", lambda ask, file: "own" if file is CLIENT else "other")
    follower = Follower(programs, (proxy,), UnixSockets())
    goes_to_sleep(programs, proxy, proxy, 100)
    follower.look()
    assert programs.followed == {proxy}


@pytest.mark.parametrize("more", [(), (CLIENT,)])
def test_thread_that_only_accepts_serves_nobody(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
    more: tuple[SleepFile, ...],
) -> None:
    client, server = (each.pid for each in sleepers)
    to_server = replace(SERVER, peers=(FilePeer(server, "app"),))
    watched = {client: (to_server,), server: (LISTENS, *more)}
    programs = polls(monkeypatch, client, (), watched)
    follower = Follower(programs, (client,), UnixSockets())
    goes_to_sleep(programs, client, client, 100)
    follower.look()
    goes_to_sleep(programs, server, server, 110)
    # Its other thread, which computes.
    runs(programs, server, server + 1, 110)
    follower.look()
    thread = blocked(client, 100)
    ((_, shown),) = follower.chains([(client, thread)], 200, 300)
    assert shown.chain is not None
    (part,) = shown.chain.parts
    found = part.threads[0].tid, part.state, part.gap
    assert found == (server + 1, *(("unknown", "ran") if more else ("running", None)))


def test_only_thread_that_works_is_the_server(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    to_server = replace(SERVER, peers=(FilePeer(server, "app"),))
    programs = polls(monkeypatch, client, (), {client: (to_server,), server: ()})
    monkeypatch.setattr(places, "syscall_name", {43: "accept"}.get)
    follower = Follower(programs, (client,), UnixSockets())
    goes_to_sleep(programs, client, client, 100)
    follower.look()
    goes_to_sleep(programs, server, server, 105, syscall=43)
    runs(programs, server, server + 1, 105)
    follower.look()
    ((_, shown),) = follower.chains([(client, blocked(client, 100))], 200, 300)
    assert shown.chain is not None
    (part,) = shown.chain.parts
    assert (part.threads[0].tid, part.state, part.gap) == (server + 1, "running", None)


@pytest.mark.parametrize("kind", [session.WAKER_HARD_IRQ, session.WAKER_UNKNOWN])
def test_time_out_of_a_poll_does_not_hide_a_stopped_server(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
    kind: int,
) -> None:
    client, server = (each.pid for each in sleepers)
    to_server = replace(SERVER, peers=(FilePeer(server, "app"),))
    programs = polls(monkeypatch, client, (), {client: (to_server,)})
    follower = Follower(programs, (client,), UnixSockets())
    goes_to_sleep(programs, client, client, 100)
    follower.look()
    stopped = ffi.new("struct chain_event *")
    stopped.now_ns, stopped.kind, stopped.state = 100, lib.CHAIN_SEEN, session.STATE_STOPPED
    stopped.tid = stopped.process = server
    programs.queue.append(stopped)
    ended = ffi.new("struct chain_event *")
    ended.now_ns, ended.kind, ended.state = 150, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN
    ended.tid, ended.process, ended.waker_kind, ended.switches = client, client, kind, 1
    programs.queue.append(ended)
    ((_, shown),) = follower.chains([(client, blocked(client, 50))], 100, 200)
    assert shown.chain is not None
    (part,) = shown.chain.parts
    assert (part.threads[0].tid, part.state, part.ns) == (server, "stopped", 50)


@pytest.mark.parametrize("asks", [True, False])
def test_server_that_asks_another_one_is_not_said_to_be_idle(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
    asks: bool,
) -> None:
    """It may owe an answer to another client than the one that woke it."""
    server, client = (each.pid for each in sleepers)
    to_server = replace(SERVER, peers=(FilePeer(server, "nginx"),), is_client=True)
    of_client = replace(CLIENT, peers=(FilePeer(client, "wrk"),))
    of_server = (of_client, replace(SERVER, inode=99, is_client=True)) if asks else (of_client,)
    programs = polls(monkeypatch, server, (), {server: of_server, client: (to_server,)})
    follower = Follower(programs, (server, client), UnixSockets())
    goes_to_sleep(programs, client, client, 90)
    goes_to_sleep(programs, server, server, 91)
    follower.look()
    runs(programs, client, client, 95)
    woken = ffi.new("struct chain_event *")
    woken.now_ns, woken.kind, woken.state = 150, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN
    woken.tid = woken.process = server
    woken.waker = woken.waker_process = client
    woken.waker_kind, woken.switches = session.WAKER_THREAD, 1
    programs.queue.append(woken)
    ((_, shown),) = follower.chains([(server, blocked(server, 50))], 100, 200)
    assert shown.chain is not None
    assert {part.idle for part in shown.chain.parts if part.threads} == {not asks}


def test_server_whose_client_is_not_seen_to_wait_is_idle(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    """As a client is that was stopped after its last answer."""
    server, client = (each.pid for each in sleepers)
    of_client = replace(CLIENT, peers=(FilePeer(client, "wrk"),), is_server=True)
    programs = polls(monkeypatch, server, (), {server: (of_client,)})
    follower = Follower(programs, (server, client), UnixSockets())
    goes_to_sleep(programs, server, server, 91)
    follower.look()
    runs(programs, client, client, 95)
    ((_, shown),) = follower.chains([(server, blocked(server, 100))], 100, 200)
    assert shown.chain is not None
    assert [part.idle for part in shown.chain.parts if part.threads] == [True]


@pytest.mark.parametrize("is_client", [True, False])
def test_server_that_waits_for_its_client_is_idle(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
    is_client: bool,
) -> None:
    server, client = (each.pid for each in sleepers)
    to_server = replace(SERVER, peers=(FilePeer(server, "nginx"),), is_client=is_client)
    of_client = replace(CLIENT, peers=(FilePeer(client, "wrk"),))
    programs = polls(monkeypatch, server, (), {server: (of_client,), client: (to_server,)})
    follower = Follower(programs, (server, client), UnixSockets())
    goes_to_sleep(programs, client, client, 90)
    goes_to_sleep(programs, server, server, 91)
    follower.look()
    runs(programs, client, client, 95)
    ((_, shown),) = follower.chains([(server, blocked(server, 100))], 100, 200)
    assert shown.chain is not None
    assert {part.idle for part in shown.chain.parts if part.threads} == {is_client}


@pytest.mark.parametrize("is_client", [True, False])
def test_request_of_another_client_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
    is_client: bool,
) -> None:
    """It ends two polls of the server, which answers the one that waits behind the second."""
    server, other = (each.pid for each in sleepers)
    client = os.getpid()
    to_server = replace(SERVER, peers=(FilePeer(server, "redis"),), is_client=is_client)
    programs = polls(monkeypatch, server, (), {server: (), client: (), other: (to_server,)})
    follower = Follower(programs, (client, server, other), UnixSockets())
    goes_to_sleep(programs, client, client, 90)
    goes_to_sleep(programs, other, other, 91)
    for at_ns in (100, 160):
        polled(programs, server, at_ns, waker=other, kind=session.WAKER_THREAD, switches=at_ns)
    answer = ffi.new("struct chain_event *")
    answer.now_ns, answer.kind, answer.state = 218, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN
    answer.tid = answer.process = client
    answer.waker = answer.waker_process = server
    answer.waker_kind, answer.switches = session.WAKER_THREAD, 1
    programs.queue.append(answer)
    ((_, shown),) = follower.chains([(client, blocked(client, 100))], 100, 220)
    assert shown.chain is not None
    ends = {part.threads[-1].tid for part in shown.chain.parts if part.threads}
    assert (other in ends) != is_client


def test_server_of_a_connection_that_is_over_is_who_listens(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, _ = (each.pid for each in sleepers)
    listener = socket.create_server(("127.0.0.1", 0))
    address = "{}:{}".format(*listener.getsockname())
    over = replace(SERVER, peer_address=address)
    programs = sleeping_for(monkeypatch, client, "socket_receive")
    monkeypatch.setattr(places, "syscall_name", {0: "read"}.get)
    monkeypatch.setattr(peers, "find_files", lambda asked, *rest: dict.fromkeys(asked, over))
    with sleeping(pass_fds=(listener.fileno(),)) as server:
        listener.close()
        follower = Follower(programs, (client,), UnixSockets())
        reads(programs, client, 100, syscall=0)
        follower.look()
        assert programs.followed == {client, server.pid}


@pytest.mark.parametrize(("bits", "reason"), [(0, "clock"), (4, "poll")])
def test_select_of_no_descriptor_is_a_sleep_on_a_timer(
    monkeypatch: pytest.MonkeyPatch, bits: int, reason: SleepReason
) -> None:
    monkeypatch.setattr(places, "sleep_reason", lambda names: "poll")
    monkeypatch.setattr(places, "syscall_name", {270: "pselect6"}.get)
    event = ffi.new("struct chain_event *")
    event.syscall, event.descriptor = 270, bits
    assert places.Places().of(event).reason == reason


def test_place_that_is_read_is_the_one_of_an_event() -> None:
    """It polls at an address of 64 bits, of which an event has 32."""
    poll = "import select; poll = select.poll(); poll.register(0); poll.poll()"
    with subprocess.Popen([sys.executable, "-c", poll], stdin=subprocess.PIPE) as process:
        call = Path(f"/proc/{process.pid}/syscall")
        number = str(syscall_number("poll"))
        wait_until(lambda: call.read_text().split()[0] == number, "its poll")
        address = int(call.read_text().split()[1], 16)
        assert address > 0xFFFFFFFF
        assert places.Places().now(process.pid, process.pid).fd == address & 0xFFFFFFFF
        process.kill()


def test_files_of_measured_processes_are_kept_for_a_window(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    to_server = replace(SERVER, peers=(FilePeer(server, "app"),))
    programs = polls(monkeypatch, client, (), {client: (to_server,), server: (CLIENT,)})
    follower = Follower(programs, (client,), UnixSockets())
    goes_to_sleep(programs, client, client, 100)
    follower.look()
    goes_to_sleep(programs, server, server, 110)
    follower.look()
    assert {(key.process, file) for key, file in follower.files.items()} == {(client, to_server)}
    follower.forget(300)
    assert not follower.files


def test_chain_of_a_round_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
) -> None:
    client, server = (each.pid for each in sleepers)
    programs = sleeping_for(monkeypatch, client, "pipe")
    follower = Follower(programs, (client,), UnixSockets())
    polled(programs, client, 100, waker=server, kind=session.WAKER_THREAD)
    thread = blocked(client, 50)
    for stop_ns in (200, 180):
        shown = follower.of_round(thread, 90, stop_ns)
        assert shown.chain is not None
        assert [part.threads[0].tid for part in shown.chain.parts] == [server]
    follower.forget(200)
    forgotten = follower.of_round(thread, 90, 180).chain
    assert forgotten is not None
    assert all(not part.threads for part in forgotten.parts)


@pytest.mark.parametrize(("reason", "is_end"), [("epoll", True), ("clock", False)])
def test_stopped_ones_are_looked_for_beside_ends_alone(
    monkeypatch: pytest.MonkeyPatch,
    sleepers: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]],
    reason: SleepReason,
    is_end: bool,
) -> None:
    client, server = (each.pid for each in sleepers)
    looked_for = set[int]()
    programs = sleeping_for(monkeypatch, client, reason)
    monkeypatch.setattr(peers.Peers, "_watched", lambda self, pid, tid: [])
    monkeypatch.setattr(Siblings, "look", lambda self, pids, now_ns: looked_for.update(pids))
    follower = Follower(programs, (client,), UnixSockets())
    woken(programs, client, server)
    follower.look()
    goes_to_sleep(programs, server, server, 100)
    follower.look()
    follower.look()
    assert looked_for == ({server} if is_end else set())


def polls(
    monkeypatch: pytest.MonkeyPatch,
    pid: int,
    files: tuple[SleepFile, ...],
    watched: dict[int, tuple[SleepFile, ...]] | None = None,
) -> Programs:
    """Have threads poll these files."""
    watched = watched or {pid: files}

    def keys(_: object, process: int, tid: int) -> list[FileKey]:
        return [FileKey(process, each.fd, each.inode, writes=False) for each in watched[tid]]

    found = {
        key: file
        for tid in watched
        for key, file in zip(keys(None, tid, tid), watched[tid], strict=True)
    }
    programs = sleeping_for(monkeypatch, pid, "epoll")
    monkeypatch.setattr(peers.Peers, "_watched", keys)
    monkeypatch.setattr(peers, "find_files", lambda asked, sockets, likely: found)
    return programs


def goes_to_sleep(programs: Programs, pid: int, tid: int, at_ns: int, *, syscall: int = 0) -> None:
    runs(programs, pid, tid, at_ns - 1)
    event = ffi.new("struct chain_event *")
    event.now_ns, event.kind, event.state = at_ns, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED
    event.tid, event.process, event.switches = tid, pid, 1
    event.syscall = syscall
    programs.queue.append(event)


def runs(programs: Programs, pid: int, tid: int, at_ns: int) -> None:
    event = ffi.new("struct chain_event *")
    event.now_ns, event.kind, event.state = at_ns, lib.CHAIN_SEEN, session.STATE_RUNNING
    event.tid, event.process = tid, pid
    programs.queue.append(event)
