"""`kernel-delay watch --follow`: what holds for one process after the other."""

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.watching.watch import Watching, watch_of
from tests.workload import HANGS_S, Workload, compile_workload, wait_until

OPTIONS = ("--follow", "--no-stacks", "--threshold", "0.002")

Start = Callable[..., Workload]


@pytest.fixture
def start(root_user: None, tmp_path: Path) -> Iterator[Start]:
    """What starts a process of one name that makes so many long rounds when it is told to."""
    program = tmp_path / "kd-followed-on"
    shutil.copy(compile_workload("long_work"), program)
    started: list[Workload] = []

    def start_one(rounds: int = 1) -> Workload:
        started.append(Workload([program, rounds]))
        return started[-1]

    yield start_one
    for workload in started:
        workload.kill()


def wait_until_it_waits(watching: Watching) -> None:
    wait_until(lambda: "waiting for a process" in watching.said(), "that it waits")


def test_a_request_while_it_waits_is_answered(start: Start, tmp_path: Path) -> None:
    first = start()
    with watch_of(first.pid, tmp_path / "recordings", *OPTIONS) as watching:
        first.kill()
        wait_until_it_waits(watching)
        watching.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: "still waiting for a process" in watching.said(), "the answer")
        assert watching.process.poll() is None


def test_the_time_is_of_all_processes(start: Start, tmp_path: Path) -> None:
    first = start()
    with watch_of(first.pid, tmp_path / "recordings", *OPTIONS, "--time", "3") as watching:
        first.kill()
        assert watching.process.wait(HANGS_S) == 0
        assert "waiting for a process" in watching.said()


def test_the_count_is_of_all_processes(start: Start, tmp_path: Path) -> None:
    # On a busy machine what is between two of them may be long too: of the first up to 21.
    count = 30
    first = start(4)
    with watch_of(first.pid, tmp_path / "recordings", *OPTIONS, "--count", str(count)) as watching:
        first.send()
        # A poll may be missed: its round has no record.
        watching.wait_for_recordings(2)
        first.kill()
        wait_until_it_waits(watching)
        before = len(watching.recordings())
        second = start(count)
        wait_until(lambda: f"watching kd-followed-on ({second.pid})" in watching.said())
        second.send()
        assert watching.process.wait(HANGS_S) == 0
        assert before < count == len(watching.recordings())


def test_that_there_are_several_is_said_once(start: Start, tmp_path: Path) -> None:
    first = start()
    with watch_of(first.pid, tmp_path / "recordings", *OPTIONS) as watching:
        second, third = start(), start()
        first.kill()
        several = re.compile(rf"2 processes are there: {second.pid} .*{third.pid} ")
        wait_until(lambda: bool(several.search(watching.said())), "what it says")
        third.kill()
        wait_until(lambda: f"watching kd-followed-on ({second.pid})" in watching.said())
        assert watching.said().count("processes are there") == 1


def test_process_of_another_program_is_not_followed(start: Start, tmp_path: Path) -> None:
    """With --pid it is no other of the name: anybody can call a process so."""
    first = start()
    (tmp_path / "other").mkdir()
    program = tmp_path / "other" / "kd-followed-on"
    shutil.copy(compile_workload("long_work"), program)
    other = Workload([program, 1])
    try:
        with watch_of(first.pid, tmp_path / "recordings", *OPTIONS) as watching:
            first.kill()
            wait_until_it_waits(watching)
            second = start()
            wait_until(lambda: f"watching kd-followed-on ({second.pid})" in watching.said())
            assert f"({other.pid})" not in watching.said()
    finally:
        other.kill()
