"""The window: exactly as long as asked for, also on a busy machine, and soon open."""

import itertools
import os
import statistics
import subprocess
import time

import pytest

from kernel_delay.model import Sample
from tests.integration.capture.captures import StartCapture, calls
from tests.integration.capture.test_thread_times import cpu_time_ns
from tests.integration.capture.workload import StartWorkload, Workload, known_syscall, undisturbed
from tests.workload import LASTS_NS, wait_until

GETPPID = known_syscall("getppid")

SAMPLE_TIME_S = "0.2"
SAMPLE_TIME_NS = 200_000_000


def agree(workload: Workload, samples: list[Sample]) -> None:
    """Compare each Sample's count with the workload's own, of calls wholly within the window.

    The workload sees its calls from outside, where they are a little longer: the
    first and the last that count may seem to it to be cut by the boundaries.
    """
    workload.ask("stop")
    counts = []
    for sample in samples:
        window = sample.window
        by_workload = workload.ask(f"{window.start_ns} {window.stop_ns}")["calls"]
        counts.append(sum(calls(each).get(GETPPID, 0) for each in sample.threads))
        assert by_workload <= counts[-1] <= by_workload + 2
    assert any(counts)


def test_a_window_is_exact(start_workload: StartWorkload, start_capture: StartCapture) -> None:
    workload = start_workload("clocked", within=undisturbed())
    workload.ask()

    sample = start_capture(workload.pid, SAMPLE_TIME_S).sample()

    assert abs(sample.window.duration_ns - SAMPLE_TIME_NS) < 10_000
    assert sample.window.ended_by == "time"
    agree(workload, [sample])


@pytest.mark.long
def test_a_window_is_exact_while_all_cpus_are_busy(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    for cpu in os.sched_getaffinity(0):
        start_workload("busy", cpu, LASTS_NS, 2, 0).send()
    workload = start_workload("clocked", within=undisturbed())
    workload.ask()

    sample = start_capture(workload.pid, SAMPLE_TIME_S).sample()

    assert abs(sample.window.duration_ns - SAMPLE_TIME_NS) < 10_000
    assert sample.window.ended_by == "time"
    agree(workload, [sample])


def test_calls_longer_than_a_window_have_its_time(start_capture: StartCapture) -> None:
    """It is in one at both ends, or next to always."""
    reads = ("dd", "if=/dev/urandom", "of=/dev/null", "bs=4M")
    with subprocess.Popen(reads, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: cpu_time_ns(process.pid) > 10_000_000)
        measured = start_capture(process.pid, "0.02").sample()
        process.kill()
    (thread,) = measured.threads
    assert thread.time is not None
    in_calls_ns = sum(call.on_cpu_ns or 0 for call in thread.syscalls)
    assert in_calls_ns >= thread.time.kernel_ns // 2


@pytest.mark.parametrize("interval", ["0", pytest.param("0.05", marks=pytest.mark.long)])
def test_reading_a_window_does_not_blind_the_next(
    interval: str, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("clocked", within=undisturbed())
    workload.ask()
    options = ("--sample-count", "5", "--sample-interval", interval)

    samples = start_capture(workload.pid, SAMPLE_TIME_S, options=options).samples()

    assert len(samples) == 5
    assert all(sample.window.duration_ns == SAMPLE_TIME_NS for sample in samples)
    gaps_ns = [
        later.window.start_ns - sample.window.stop_ns
        for sample, later in itertools.pairwise(samples)
    ]
    assert min(gaps_ns) >= float(interval) * 1e9
    agree(workload, samples)


def test_an_interrupt_ends_the_window_there(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("clocked", within=undisturbed())
    workload.ask()
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    time.sleep(0.1)

    before_ns = time.monotonic_ns()
    sample = capture.end()

    assert sample.window.ended_by == "interrupt"
    assert before_ns < sample.window.stop_ns < time.monotonic_ns()
    assert sample.window.duration_ns == sample.window.stop_ns - sample.window.start_ns
    agree(workload, [sample])


def test_the_window_opens_soon(
    slow_machine: bool,
    python_start_s: float,
    start_workload: StartWorkload,
    start_capture: StartCapture,
) -> None:
    if slow_machine:
        pytest.skip("Python alone takes longer to start here")
    workload = start_workload("calls")
    cpu_ns = []
    for _ in range(5):
        capture = start_capture(workload.pid)
        capture.wait_until_open()
        # What others had the CPU for says nothing of the command.
        cpu_ns.append(cpu_time_ns(capture.pid))
        capture.end()

    # 12 to 14 times as much as a bare interpreter, most of it the kernel's verifier.
    assert statistics.median(cpu_ns) < 40e9 * python_start_s
