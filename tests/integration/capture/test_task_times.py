"""What the kernel counts of a thread: its faults, its signals, and times that doubt the account."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest

from kernel_delay.host.target import read_comm
from kernel_delay.model import NewestSignal, Thread
from tests import commands
from tests.integration.capture.in_process import LONG_WINDOW_S, Timed, timed
from tests.integration.capture.workload import StartWorkload
from tests.workload import wait_until

# Does what a line says, as often as it says, and answers.
PROGRAM = """
import mmap, os, signal, sys, time
for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGCHLD):
    signal.signal(number, lambda number, frame: None)
memory = mmap.mmap(-1, 1 << 22)
cpus = sorted(os.sched_getaffinity(0)) * 2
# A page's first fault is a major one where shared memory is in ramfs (CONFIG_SHMEM=n).
for at in range(0, 1 << 22, mmap.PAGESIZE):
    memory[at] = 1
print("ready", flush=True)
for line in sys.stdin:
    what, times = line.split()
    for turn in range(int(times)):
        if what == "signals":
            os.kill(os.getpid(), signal.SIGUSR1)
        elif what == "alarms":
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            while signal.getitimer(signal.ITIMER_REAL)[0]:
                time.sleep(0.001)
        elif what == "children":
            if not os.fork():
                os._exit(0)
            os.wait()
        elif what == "moves":
            os.sched_setaffinity(0, {cpus[turn % 2]})
        else:
            memory.madvise(mmap.MADV_DONTNEED)
            for at in range(0, 1 << 22, mmap.PAGESIZE):
                memory[at] = 1
    print("done", flush=True)
"""
PAGES = (1 << 22) // 4096


@pytest.fixture
def program(root_user: None) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def do_turns(process: "subprocess.Popen[str]", what: str, times: int) -> None:
    """Have it do that, and wait until it has."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{what} {times}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def do(process: "subprocess.Popen[str]", what: str, times: int) -> tuple[Timed, Thread]:
    """Capture while it does that; returns its thread, too."""

    def work() -> None:
        do_turns(process, what, times)
        time.sleep(LONG_WINDOW_S)

    found = timed(process.pid, work)
    (thread,) = found.sample.threads
    return found, thread


def minor_faults(pid: int) -> int:
    """As proc_pid_stat(5) has them."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def test_faults_are_those_of_proc(program: "subprocess.Popen[str]") -> None:
    before = minor_faults(program.pid)
    found, thread = do(program, "faults", 200)
    counted = minor_faults(program.pid) - before
    assert counted >= 200 * PAGES
    assert 200 * PAGES <= found.at_boundaries(thread.task_times).minor_faults <= counted


def test_each_signal_that_is_delivered_is_counted(program: "subprocess.Popen[str]") -> None:
    _, thread = do(program, "signals", 5_000)
    assert thread.signals == 5_000


@pytest.mark.parametrize(
    ("what", "number", "origin"),
    [
        ("signals", signal.SIGUSR1, "itself"),
        ("alarms", signal.SIGALRM, "timer"),
        ("children", signal.SIGCHLD, "kernel"),
    ],
)
def test_newest_signal_has_its_origin(
    program: "subprocess.Popen[str]",
    what: str,
    number: int,
    origin: Literal["itself", "timer", "kernel"],
) -> None:
    _, thread = do(program, what, 2)
    assert thread.newest_signal == NewestSignal(number, origin)


def test_newest_of_several_signals_has_the_name_of_its_sender(
    program: "subprocess.Popen[str]",
) -> None:
    def send() -> None:
        program.send_signal(signal.SIGALRM)
        # It has handled that one once it answers.
        do_turns(program, "signals", 1)
        program.send_signal(signal.SIGCHLD)
        do_turns(program, "moves", 0)

    (thread,) = timed(program.pid, send).sample.threads
    sender = NewestSignal(signal.SIGCHLD, "process", os.getpid(), read_comm(Path("/proc/self")))
    assert (thread.signals, thread.newest_signal) == (3, sender)


def test_signal_that_ends_a_thread_is_delivered_to_no_handler(
    program: "subprocess.Popen[str]",
) -> None:
    def send() -> None:
        do_turns(program, "signals", 2)
        program.kill()
        program.wait()

    (thread,) = timed(program.pid, send).sample.threads
    assert (thread.signals, thread.newest_signal) == (2, NewestSignal(signal.SIGUSR1, "itself"))


def migrations(pid: int) -> int:
    """As the scheduler's debugging has them, of a kernel that shows it."""
    for line in Path(f"/proc/{pid}/sched").read_text().splitlines():
        if line.startswith("se.nr_migrations"):
            return int(line.rpartition(":")[2])
    raise AssertionError("se.nr_migrations is not there")


def test_migrations_are_those_of_proc(program: "subprocess.Popen[str]") -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one CPU, and nowhere to go")
    if not Path("/proc/self/sched").exists():
        pytest.skip("this kernel has no CONFIG_SCHED_DEBUG")
    before = migrations(program.pid)
    found, thread = do(program, "moves", 500)
    counted = migrations(program.pid) - before
    # It may be where it is to go already, the first time.
    assert 499 <= found.at_boundaries(thread.migrations) <= counted


def test_uprobes_in_its_code_are_known(start_workload: StartWorkload, closing: ExitStack) -> None:
    workload = start_workload("spin", max(os.sched_getaffinity(0)), 1)
    before = timed(workload.pid, lambda: time.sleep(LONG_WINDOW_S))
    with tempfile.TemporaryFile() as reported:
        other = commands.start(
            *("--pid", workload.pid, "--start-trigger", "up:main"),
            stdout=subprocess.DEVNULL,
            stderr=reported.fileno(),
        )
        closing.callback(other.wait)
        closing.callback(other.kill)
        # main() was entered long ago, so it waits as long as it may.
        wait_until(lambda: b"waiting for start trigger" in os.pread(reported.fileno(), 4096, 0))
        during = timed(workload.pid, lambda: time.sleep(LONG_WINDOW_S))
    uprobed = [found.at_boundaries(found.sample.system_state).uprobed for found in (before, during)]
    assert uprobed == [False, True]
