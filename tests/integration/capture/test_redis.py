"""A program that waits in epoll_wait(2), as most servers do."""

import os
import shutil
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.host.kernel_names import POLLS
from kernel_delay.reporters import text
from tests.integration.capture.captures import StartCapture, thread
from tests.workload import wait_until

# Of redis-tools: the same program as redis-server, which it becomes by its name.
REDIS = "redis-check-rdb"

CLIENTS = 4


@pytest.fixture
def busy_redis(tmp_path: Path, closing: ExitStack) -> int:
    """The process id of a server that clients keep busy."""
    program = shutil.which(REDIS)
    assert program is not None, "redis-tools is not installed: setup/packages-test.txt has it"
    server, path = tmp_path / "redis-server", tmp_path / "socket"
    server.symlink_to(program)
    private = ("--port", "0", "--unixsocket", path, "--save", "", "--dir", tmp_path)
    redis = start(closing, server, *private)
    # The socket is there before it can be connected to.
    wait_until(lambda: answers(path))
    files = Path(f"/proc/{redis.pid}/fd")
    idle = len(list(files.iterdir()))
    start(closing, "redis-benchmark", "-s", path, "-t", "get", "-c", str(CLIENTS), "-l", "-q")
    # On a busy machine the clients may come later than the capture.
    wait_until(lambda: len(list(files.iterdir())) >= idle + CLIENTS, "the clients")
    return redis.pid


def answers(path: Path) -> bool:
    """Whether it does. Its end of this connection is closed then, and none of its files."""
    with socket.socket(socket.AF_UNIX) as client:
        if client.connect_ex(os.fspath(path)):
            return False
        client.send(b"QUIT\r\n")
        while client.recv(64):
            pass
        return True


def start(closing: ExitStack, *command: object) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL)
    closing.callback(process.wait)
    closing.callback(process.kill)
    return process


def test_the_total_is_without_its_polls(busy_redis: int, start_capture: StartCapture) -> None:
    sample = start_capture(busy_redis, "0.5").sample()

    main = thread(sample, busy_redis)
    polled = [call for call in main.syscalls if call.name in POLLS and call.count]
    others = [call for call in main.syscalls if call.name not in POLLS and call.count]
    # arm64 has epoll_pwait(2) alone.
    assert [call.name for call in polled] in (["epoll_wait"], ["epoll_pwait"])
    assert {"read", "write"} <= {call.name for call in others}
    _, _, total = text.render(sample).partition("TOTAL( - poll):")
    count, total_ns = total.splitlines()[0].split()
    assert int(count) == sum(call.count for call in others)
    assert int(total_ns.replace(",", "")) == sum(call.total_ns for call in others)
    assert main.long_poll is not None
    assert main.long_poll.count > 0
