"""The verdict on the manual's three examples, rebuilt, and on an idle Open vSwitch."""

import os
import subprocess

import pytest

from kernel_delay.model import Finding, Sample
from lab.disturbers import Competitor
from lab.instance import Instance
from tests.integration.capture.captures import Measure, StartCapture
from tests.integration.capture.workload import StartWorkload, undisturbed

CPU = max(os.sched_getaffinity(0))

LENGTH_NS = 400_000_000

# Beyond the end of any capture here, also on a busy machine.
LONG_NS = 60_000_000_000


def found(sample: Sample) -> dict[str, Finding]:
    return {finding.rule: finding for finding in sample.verdict}


def test_a_revalidator_starved_of_cpu(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("spin", CPU, LONG_NS, within=undisturbed())
    workload.ask()
    with Competitor(CPU, seconds=60.0) as competitor:
        subprocess.run([*undisturbed()[:2], "--pid", "1", str(competitor.pid)], check=True)
        sample = start_capture(workload.pid, "1").sample()
    finding = found(sample)["cpu_contention"]
    assert finding.who == "other-process"
    assert finding.share > 0.25
    assert f"({competitor.pid}), SCHED_RR, ran for" in finding.text
    assert not any("not to blame" in other.text for other in sample.verdict)


def test_a_revalidator_with_too_much_work(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("spin", CPU, LONG_NS, within=undisturbed())
    workload.ask()
    for sample in start_capture(workload.pid, "0.3", ("--sample-count", "8")).samples():
        if any(not finding.remark for finding in sample.verdict):
            continue
        (busy,) = sample.verdict
        assert (busy.rule, busy.who) == ("user_work", "program")
        return
    # A twentieth of the CPU is kept from real-time threads (sched_rt_runtime_us).
    pytest.skip("others had this CPU in each of eight windows")


def test_a_slow_change_of_bridges(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("maps", CPU, LENGTH_NS, within=undisturbed())
    sample, _ = measure(workload)
    worst = sample.verdict[0]
    assert worst.rule == "kernel_work"
    assert worst.who == "kernel"
    assert worst.tid == workload.pid
    assert "mmap" in worst.text


def test_a_convoy_behind_a_lock(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("locks", 40, 5_000_000, within=undisturbed())
    sample, seen = measure(workload)
    finding = found(sample)["lock"]
    assert finding.tid == workload.pid
    assert f"({seen['holder']}) held" in finding.text


@pytest.mark.usefixtures("measurable")
def test_an_idle_open_vswitch(ovs: Instance, start_capture: StartCapture) -> None:
    command = (*undisturbed()[:2], "--all-tasks", "--pid", "1", str(ovs.pid))
    subprocess.run(command, check=True)
    for sample in start_capture(ovs.pid, "0.5", ("--sample-count", "4")).samples():
        # A remark may be: of a thread that waits for another, as some do while it begins.
        assert all(finding.remark for finding in sample.verdict), sample.verdict
