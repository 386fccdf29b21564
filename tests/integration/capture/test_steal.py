"""What the hypervisor takes of a thread's time, or a round, is what /proc/stat says of its CPU."""

import os
import time
from pathlib import Path

import pytest

from kernel_delay.capture.plan import RoundPlan
from tests.integration.capture.in_process import LONG_WINDOW_S, timed
from tests.integration.capture.test_rounds import asked
from tests.integration.capture.workload import StartWorkload, undisturbed
from tests.needs import in_kernels_types
from tests.workload import LASTS_NS

pytestmark = pytest.mark.usefixtures("steal_clock")

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# One that is cut off at each end, and the kernel's own, at which it brings its counts up to date.
SLACK_NS = 3 * TICK_NS
# What real-time threads may have of a CPU; kernel/sched/rt.c, sched_rt_runtime_us.
RT_SHARE = 0.95


@pytest.fixture(scope="module")
def steal_clock() -> None:
    """Skips where the scheduler does not keep it: CONFIG_PARAVIRT_TIME_ACCOUNTING."""
    if not in_kernels_types("prev_steal_time_rq"):
        pytest.skip("this kernel does not keep the steal time of a run queue")


def stolen_ns(cpu: int) -> int:
    """Of the CPU, since it was booted; proc_stat(5)."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *values = line.split()
        if name == f"cpu{cpu}":
            return int(values[7]) * TICK_NS
    raise LookupError(cpu)


def test_running_thread_has_the_steal_time_of_its_cpu(start_workload: StartWorkload) -> None:
    cpu = max(os.sched_getaffinity(0))
    workload = start_workload("spin", cpu, LASTS_NS, within=undisturbed())
    workload.ask()
    within: list[int] = []

    def work() -> None:
        within.append(stolen_ns(cpu))
        time.sleep(LONG_WINDOW_S)
        within.append(stolen_ns(cpu))

    before = stolen_ns(cpu)
    found = timed(workload.pid, work)
    (thread,) = found.sample.threads
    around = stolen_ns(cpu) - before
    steal_ns = found.at_boundaries(thread.task_times).steal_ns
    assert steal_ns is not None
    assert (within[1] - within[0]) * RT_SHARE - SLACK_NS <= steal_ns
    assert steal_ns <= around + SLACK_NS
    print(f"{steal_ns} ns, /proc/stat {within[1] - within[0]} to {around} ns")


@pytest.mark.long
def test_a_round_is_stolen_what_its_cpu_is_meanwhile(start_workload: StartWorkload) -> None:
    cpu = max(os.sched_getaffinity(0))
    workload = start_workload("poll_threads", 1, 2_000_000_000, within=undisturbed())
    os.sched_setaffinity(workload.pid, {cpu})

    began_ns, before = time.monotonic_ns(), stolen_ns(cpu)
    samples, _, _ = asked(workload, RoundPlan(threshold_ns=1_000_000_000))
    around, took_ns = stolen_ns(cpu) - before, time.monotonic_ns() - began_ns

    (sample,) = (each for each in samples if each.round and each.round.tid == workload.pid)
    times = sample.threads[0].task_times
    assert times is not None
    assert times.steal_ns is not None
    outside_ns = took_ns - sample.window.duration_ns
    assert around * RT_SHARE - SLACK_NS - outside_ns <= times.steal_ns <= around + SLACK_NS
    print(f"{times.steal_ns} ns of the round, /proc/stat {around} ns, {outside_ns} ns around it")
