"""What the kernel counts of a thread: its faults, its signals, and times that doubt the account."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_delay.model import Thread
from tests.integration.capture.in_process import measured

# Does what a line says, as often as it says, and answers.
PROGRAM = """
import mmap, os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda number, frame: None)
memory = mmap.mmap(-1, 1 << 22)
print("ready", flush=True)
for line in sys.stdin:
    what, times = line.split()
    for _ in range(int(times)):
        if what == "signals":
            os.kill(os.getpid(), signal.SIGUSR1)
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


def do(process: "subprocess.Popen[str]", what: str, times: int) -> Thread:
    """Capture while it does that; returns its thread."""
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def work() -> None:
        stdin.write(f"{what} {times}\n")
        stdin.flush()
        assert stdout.readline() == "done\n"

    (thread,) = measured(process.pid, work).threads
    return thread


def minor_faults(pid: int) -> int:
    """As proc_pid_stat(5) has them."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def test_faults_are_those_of_proc(program: "subprocess.Popen[str]") -> None:
    before = minor_faults(program.pid)
    thread = do(program, "faults", 200)
    counted = minor_faults(program.pid) - before
    assert counted >= 200 * PAGES
    if thread.task_times is None:
        pytest.skip("the window's edges were read too late: this machine is too busy")
    assert 200 * PAGES <= thread.task_times.minor_faults <= counted


def test_each_signal_that_is_delivered_is_counted(program: "subprocess.Popen[str]") -> None:
    thread = do(program, "signals", 5_000)
    assert thread.signals == 5_000
