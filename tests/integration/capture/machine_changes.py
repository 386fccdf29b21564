"""Clocks that are set, CPUs that go and come, a machine that sleeps: all within a window.

In virtual machines alone, as it is done to the machine: make test-machine-changes.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_delay.model import Sample
from tests.emulation import scaled
from tests.integration.capture.captures import StartCapture, calls, check_sums, thread
from tests.integration.capture.workload import StartWorkload, Workload, known_syscall
from tests.workload import LASTS_NS

pytestmark = pytest.mark.usefixtures("measurable", "guest")

DAY_S = 86_400
S = 1_000_000_000

# Not the first, which most kernels can't do without.
CPU = max(os.sched_getaffinity(0))
ONLINE = Path(f"/sys/devices/system/cpu/cpu{CPU}/online")

GETPPID = known_syscall("getppid")
CALLS = scaled(2_000_000)
TURNS = 5

OPTIONS = pytest.mark.parametrize("options", [(), ("-s",), ("--timeline",), ("--chains",)])


@pytest.fixture(scope="module")
def guest() -> None:
    """Skips where it is no virtual machine of the tests' own (tests/kernels/guest.sh)."""
    if not Path("/proc/cmdline").read_text().count("virtme"):
        pytest.skip("it changes the machine, and this one is not the tests' own")


@pytest.fixture
def online() -> Iterator[Path]:
    """The file that has a CPU go and come; it is there again at the end."""
    yield ONLINE
    ONLINE.write_text("1")


@pytest.mark.parametrize("step_s", [-DAY_S, DAY_S])
def test_clock_that_is_set(
    step_s: int, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    workload.send()
    capture = start_capture(workload.pid, "2")
    capture.wait_until_open()
    before_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    time.clock_settime_ns(time.CLOCK_REALTIME, before_ns + step_s * S)
    try:
        sample = capture.sample()
    finally:
        now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
        time.clock_settime_ns(time.CLOCK_REALTIME, now_ns - step_s * S)
    check_sums(sample)
    assert 2 * S <= sample.window.duration_ns < DAY_S * S // 2
    # The wall clock is by the new setting, as the lines of a log that are written now.
    off_s = sample.window.start_time.timestamp() - before_ns / S - step_s
    assert abs(off_s) < DAY_S // 2


@OPTIONS
def test_cpus_that_go_and_come(
    options: tuple[str, ...],
    online: Path,
    start_workload: StartWorkload,
    start_capture: StartCapture,
) -> None:
    workload = start_workload("calls", f"{GETPPID}={CALLS}")
    other = start_workload("spin", CPU, LASTS_NS)
    other.send()
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()
    workload.send()
    for _ in range(TURNS):
        online.write_text("0")
        time.sleep(0.05)
        online.write_text("1")
        time.sleep(0.05)
    workload.line()
    check_calls(capture.end(), workload)


@OPTIONS
def test_cpu_that_was_not_there_at_the_start(
    options: tuple[str, ...],
    online: Path,
    start_workload: StartWorkload,
    start_capture: StartCapture,
) -> None:
    online.write_text("0")
    workload = start_workload("calls", f"{GETPPID}={CALLS}")
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()
    online.write_text("1")
    os.sched_setaffinity(workload.pid, {CPU})
    workload.ask()
    check_calls(capture.end(), workload)


def check_calls(sample: Sample, workload: Workload) -> None:
    """All are there but those that it says are missed, and each thread's time is whole."""
    check_sums(sample)
    found = calls(thread(sample, workload.pid)).get(GETPPID, 0)
    assert CALLS - sample.lost.missed_events <= found <= CALLS


def test_processes_that_are_frozen_for_a_sleep_of_the_machine(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    """The kernel freezes all, waits for five seconds, and has them go on (basic-pm-debugging.rst).

    Devices don't sleep: those of such a machine have no way to wake it.
    """
    test = Path("/sys/power/pm_test")
    if not test.exists():
        pytest.skip("this kernel has no test of a sleep (CONFIG_PM_DEBUG)")
    workload = start_workload("spin", CPU, LASTS_NS)
    workload.send()
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    test.write_text("freezer")
    begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    Path("/sys/power/state").write_text("freeze")
    frozen_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin_ns
    test.write_text("none")
    sample = capture.end()
    check_sums(sample)
    its = thread(sample, workload.pid).time
    assert its is not None
    ran_ns = its.user_ns + its.kernel_ns
    assert ran_ns > 0
    # It ran neither while it was frozen, nor is that the time of something else.
    assert sample.window.duration_ns - ran_ns > frozen_ns // 2
    print(frozen_ns, its)
