"""Whose turn it is on a TCP connection, and what is held back, by the kernel's own counts."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from kernel_delay.host.open_files.tcp_info import MOST_UNANSWERED, sending, turn
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.model import SleepFile
from tests.workload import wait_until


class Ends(NamedTuple):
    client: socket.socket
    server: socket.socket


@pytest.fixture(params=["127.0.0.1", "::1"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((request.param, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as client:
            server, _ = listener.accept()
            with server:
                yield Ends(client, server)


def file_of(own: socket.socket) -> SleepFile:
    inode = os.fstat(own.fileno()).st_ino & 0xFFFFFFFF
    name, peer = (
        f"[{a}]:{p}" if ":" in a else f"{a}:{p}"
        for a, p, *_ in (own.getsockname(), own.getpeername())
    )
    return SleepFile(own.fileno(), inode, "tcp", name, peer)


def turns(ends: Ends) -> tuple[str | None, str | None]:
    with closing(UnixSockets()) as sockets:
        client, server = (turn(sockets.ask, file_of(each)) for each in ends)
        return client, server


def test_nobody_is_to_send_before_anything_was_sent(ends: Ends) -> None:
    assert turns(ends) == (None, None)


def test_server_is_to_send_after_a_request(ends: Ends) -> None:
    ends.client.send(b"request")
    ends.server.recv(100)
    assert turns(ends) == ("other", "own")


def test_client_is_to_send_after_an_answer(ends: Ends) -> None:
    ends.client.send(b"request")
    ends.server.recv(100)
    # Both count in milliseconds.
    while turns(ends)[1] == "own":
        ends.server.send(b"answer")
        ends.client.recv(100)
    assert turns(ends)[0] in ("own", None)
    assert turns(ends)[1] in ("other", None)


def test_a_receiver_that_never_answers_has_no_turn(ends: Ends) -> None:
    ends.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(MOST_UNANSWERED + 1):
        assert turns(ends)[0] in ("other", None)
        ends.client.send(b"a line of a log")
        ends.server.recv(100)
    assert turns(ends)[0] is None
    ends.server.send(b"answer")
    ends.client.recv(100)
    # From here on it is one that answers.
    while turns(ends)[0] != "other":
        ends.client.send(b"request")
        ends.server.recv(100)


def test_socket_that_is_not_there_has_no_turn(ends: Ends) -> None:
    with closing(UnixSockets()) as sockets:
        file = file_of(ends.client)
        assert (
            turn(sockets.ask, SleepFile(3, file.inode + 1, "tcp", file.name, file.peer_address))
            is None
        )
        assert turn(sockets.ask, SleepFile(3, file.inode, "tcp", "", None)) is None
    assert turn(lambda request: None, file) is None


def test_small_parts_are_held_back_until_others_are_acknowledged(ends: Ends) -> None:
    """An end that delays its acknowledgements, as one that answers does, does so for 40 ms."""
    ends.server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    client, server = map(file_of, ends)
    with closing(UnixSockets()) as sockets:

        def holds_back(file: SleepFile) -> bool:
            ends.client.send(b"head")
            ends.client.send(b"body")
            return sending(sockets.ask, file).held_back > 0

        assert sending(sockets.ask, client).held_back == 0
        wait_until(lambda: holds_back(client))
        # Of the other end the addresses alone are known.
        wait_until(lambda: holds_back(replace(client, inode=0)))
        assert sending(sockets.ask, server).held_back == 0
        ends.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wait_until(lambda: sending(sockets.ask, client).held_back == 0)
        assert not holds_back(client)


def test_only_what_an_end_sends_itself_is_sent_last(ends: Ends) -> None:
    client, server = map(file_of, ends)
    with closing(UnixSockets()) as sockets:

        def sent_ns(file: SleepFile) -> int:
            found = sending(sockets.ask, file).last_ns
            assert found is not None
            return found

        time.sleep(0.1)
        ends.server.send(b"news")
        ends.client.recv(100)
        assert sent_ns(client) > 0.05 * 1e9
        assert sent_ns(server) < sent_ns(client)
        before_ns = time.monotonic_ns()
        ends.client.send(b"request")
        # In ticks of up to 10 ms.
        assert sent_ns(client) <= time.monotonic_ns() - before_ns + 20_000_000
        nobody = replace(client, peer_address="192.0.2.1:1")
        assert sending(sockets.ask, nobody).last_ns is None
