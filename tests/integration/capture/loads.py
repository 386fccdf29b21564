"""What is far more than a node has: figures add up, and memory is bounded. make test-loads."""

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.model import Sample
from tests.integration.capture.captures import StartCapture, calls, check_sums, end, thread
from tests.integration.capture.workload import StartWorkload, known_syscall
from tests.needs import needed
from tests.workload import wait_until

pytestmark = pytest.mark.usefixtures("measurable")

KIB = 1024
MIB = KIB * KIB
GETPPID, READ = known_syscall("getppid"), known_syscall("read")

# What a capture has in memory: by itself, with what it maps of the kernel's, and for each thread.
BASE_BYTES = 64 * MIB
THREAD_BYTES = 24 * KIB

# Runs a command, and notes the most memory that it had, in KiB.
NOTES_MEMORY = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[2:])
_, status, used = os.wait4(process.pid, 0)
open(sys.argv[1], "w").write(str(used.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""

FORKS = """
i=0; while [ $i -lt %d ]; do sleep 3600 & i=$((i + 1)); done; echo "{}"; read line
i=0; while [ $i -lt %d ]; do /bin/true; i=$((i + 1)); done; echo "{}"; read line
"""


def gone(*samples: Sample) -> int:
    """How many events and records they say are lost."""
    return max(each.lost.missed_events + each.lost.dropped_records for each in samples)


def getppids(*samples: Sample) -> int:
    return sum(calls(each).get(GETPPID, 0) for sample in samples for each in sample.threads)


def ended(*samples: Sample) -> int:
    """How many threads ended."""
    threads = [each for sample in samples for each in sample.threads]
    return sum(each.threads for each in threads if each.exited)


@pytest.mark.parametrize("options", [(), ("-s",), ("--chains",), ("--timeline",)])
def test_twenty_thousand_threads(
    options: tuple[str, ...],
    start_workload: StartWorkload,
    start_capture: StartCapture,
    tmp_path: Path,
) -> None:
    count = 20_000
    workload = start_workload("crowd", count, 0)
    memory = tmp_path / "KiB"
    notes = (sys.executable, "-c", NOTES_MEMORY, str(memory))
    sample = start_capture(workload.pid, "2", options, within=notes).sample()
    check_sums(sample)
    assert {each.tid for each in sample.threads} == set(workload.tids())
    assert len(sample.threads) == count + 1
    print(int(memory.read_text()) // KIB, "MiB")
    assert int(memory.read_text()) * KIB < BASE_BYTES + count * THREAD_BYTES


@pytest.mark.parametrize("options", [(), ("-s",), ("--timeline",)])
def test_a_hundred_thousand_threads_that_end(
    options: tuple[str, ...], start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    count = 100_000
    workload = start_workload("crowd", 0, count)
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()
    workload.ask()
    workload.wait_until_alone()
    sample = capture.end()
    check_sums(sample)
    print(gone(sample), "gone")
    assert count - gone(sample) <= getppids(sample) <= count
    assert count - gone(sample) <= ended(sample)


def test_five_thousand_children_that_live_and_as_many_that_end(
    start_capture: StartCapture, closing: ExitStack
) -> None:
    count = 5_000
    shell = subprocess.Popen(
        ["sh", "-c", FORKS % (count, count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    closing.callback(subprocess.run, ["pkill", "-KILL", "--session", str(shell.pid)])
    assert shell.stdout is not None
    assert shell.stdin is not None
    shell.stdout.readline()
    capture = start_capture(shell.pid, options=("--children",))
    capture.wait_until_open()
    print("go", file=shell.stdin, flush=True)
    shell.stdout.readline()
    samples = list(end(capture).values())
    living = [each for sample in samples for each in sample.threads if not each.exited]
    print(len(samples), len(living), ended(*samples), gone(*samples), "gone")
    assert len(living) == count + 1
    assert count - gone(*samples) <= ended(*samples) <= count


@pytest.mark.parametrize("options", [(), ("--no-accounting",), ("-s",)])
def test_calls_as_fast_as_a_thread_makes_them(
    options: tuple[str, ...], start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    count = 3_000_000
    workload = start_workload("calls", f"{GETPPID}={count}")
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()
    workload.ask()
    sample = capture.end()
    made = calls(thread(sample, workload.pid))[GETPPID]
    print(made, gone(sample), "gone")
    assert count - gone(sample) <= made <= count


@pytest.mark.parametrize("options", [(), ("-s",), ("--chains",), ("--wakers", "stacks")])
def test_threads_that_wake_each_other_as_fast_as_they_can(
    options: tuple[str, ...], start_capture: StartCapture
) -> None:
    """Two threads of perf's with one CPU: each turn of one is a wake-up and two switches."""
    turns = 1_000_000
    bench = f"taskset --cpu-list 0 perf bench sched pipe --threaded --loop {turns}"
    waits = ["sh", "-c", f"read line; exec {bench}"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        capture = start_capture(process.pid, options=options)
        capture.wait_until_open()
        printed, _ = process.communicate(b"go\n")
        sample = capture.sample()
    check_sums(sample)
    (took,) = re.findall(rb"Total time: ([\d.]+)", printed)
    made = sum(calls(each).get(READ, 0) for each in sample.threads)
    runs = sum(each.run.count for each in sample.threads if each.run is not None)
    print(int(2 * turns / float(took)), "wake-ups a second,", made, runs, gone(sample), "gone")
    # And what perf reads to start.
    assert 2 * turns - gone(sample) <= made < 2 * turns + 1_000


@pytest.mark.parametrize("options", [(), ("-s",), ("--chains",), ("--timeline",)])
def test_storm_of_execs(
    options: tuple[str, ...], start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    count = 2_000
    workload = start_workload("execs", count)
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()
    workload.ask()
    sample = capture.end()
    check_sums(sample)
    print(gone(sample), "gone")
    assert count - gone(sample) <= getppids(sample) <= count
    # The thread that execs is the first one from then on.
    assert not thread(sample, workload.pid).exited


@pytest.mark.usefixtures("root_user")
@pytest.mark.parametrize("options", [(), ("--chains",), ("--timeline",)])
def test_children_that_all_have_the_same_pid(
    options: tuple[str, ...], start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    count = 200
    workload = start_workload("reused", count)
    capture = start_capture(workload.pid, options=("--children", *options))
    capture.wait_until_open()
    answer = workload.ask()
    samples = list(end(capture).values())
    assert answer["same"] > count // 2
    print(answer, len(samples), getppids(*samples), ended(*samples), gone(*samples), "gone")
    assert count - gone(*samples) <= getppids(*samples) <= count
    assert count - gone(*samples) <= ended(*samples) <= count


def test_ten_at_once_beside_other_tracers(
    start_workload: StartWorkload, start_capture: StartCapture, closing: ExitStack
) -> None:
    workload = start_workload("busy", 1, 3_600_000_000_000, 1, 4)
    workload.send()
    others = (
        (needed("perf"), "record", "-o", "/dev/null", "-e", "cpu-clock", "-g", "-p", workload.pid),
        (needed("bpftrace"), "-e", "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }"),
        (needed("strace"), "-f", "-c", "-o", "/dev/null", "-p", workload.pid),
    )
    for command in others:
        null = subprocess.DEVNULL
        process = subprocess.Popen([*map(str, command)], stdout=null, stderr=null)
        closing.callback(process.wait)
        closing.callback(process.terminate)
    tracer = Path(f"/proc/{workload.pid}/status")
    wait_until(lambda: "TracerPid:\t0" not in tracer.read_text(), "strace")
    kinds = ((), ("-s",), ("--chains",), ("--timeline",), ("--wakers", "stacks"))
    captures = [start_capture(workload.pid, "2", options) for options in (*kinds, *kinds)]
    for capture in captures:
        sample = capture.sample()
        check_sums(sample)
        assert {each.tid for each in sample.threads} == set(workload.tids())
