"""What tests on the running kernel share: workloads, captures of them, and oracles."""

import resource
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import pytest

from kernel_delay.model import Sample
from tests.integration.capture.captures import UNTIL_ENDED_S, Capture, Measure, StartCapture
from tests.integration.capture.workload import StartWorkload, Workload
from tests.integration.oracles import Bpftrace, PerfStat, StartBpftrace, StartPerfStat
from tests.workload import compile_workload

# A bare interpreter starts in 10 to 20 ms on a CPU of today, emulated in 300 or more.
SLOW_S = 0.1


@pytest.fixture(scope="session")
def python_start_s() -> float:
    """How long this machine's CPU takes to start a bare interpreter."""
    return min(start_of_python_s() for _ in range(3))


@pytest.fixture(scope="session")
def slow_machine(python_start_s: float) -> bool:
    """Whether the CPU is so slow, as one that is emulated, that no length can be compared."""
    return python_start_s > SLOW_S


def start_of_python_s() -> float:
    """CPU time: what others have the CPU for does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", ""], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.fixture
def start_workload(closing: ExitStack) -> StartWorkload:
    """Start a workload: its name, its arguments, what it runs within, whether as a 32-bit one."""

    def start(
        name: str, *arguments: object, within: tuple[str, ...] = (), compat: bool = False
    ) -> Workload:
        program = compile_workload(name, compat=compat)
        workload = Workload([str(program), *map(str, arguments)], within)
        closing.callback(workload.kill)
        return workload

    return start


@pytest.fixture
def start_capture(measurable: None, closing: ExitStack) -> StartCapture:
    """Start a capture, with the arguments of Capture."""

    def start(
        pid: int,
        sample_time_s: str = UNTIL_ENDED_S,
        options: tuple[str, ...] = (),
        within: tuple[str, ...] = (),
    ) -> Capture:
        capture = Capture(pid, sample_time_s, options, within)
        closing.callback(capture.kill)
        return capture

    return start


@pytest.fixture
def start_bpftrace(measurable: None, bpftrace_works: None, closing: ExitStack) -> StartBpftrace:
    """Start a bpftrace program."""

    def start(program: str) -> Bpftrace:
        bpftrace = Bpftrace(program)
        closing.callback(bpftrace.kill)
        return bpftrace

    return start


@pytest.fixture
def start_perf_stat(measurable: None, perf_works: None, closing: ExitStack) -> StartPerfStat:
    """Start perf-stat(1) on a thread: its id and the tracepoints."""

    def start(tid: int, *events: str) -> PerfStat:
        perf_stat = PerfStat(tid, *events)
        closing.callback(perf_stat.kill)
        return perf_stat

    return start


@pytest.fixture
def measure(start_capture: StartCapture) -> Measure:
    """Have a workload act within a window: its Sample, and the workload's answer."""

    def run(workload: Workload) -> tuple[Sample, dict[str, Any]]:
        capture = start_capture(workload.pid)
        capture.wait_until_open()
        answer = workload.ask()
        workload.parked()
        return capture.end(), answer

    return run
