"""The verdict on the manual's three examples, rebuilt, and on an idle Open vSwitch."""

import os
import subprocess

import pytest

from kernel_delay.model import Finding, Sample
from lab.disturbers import Competitor
from lab.instance import Instance
from tests.emulation import is_emulated
from tests.integration.capture.captures import Measure, StartCapture, thread
from tests.integration.capture.scheduler_clock import most_stolen_ns, stolen_ns
from tests.integration.capture.test_thread_times import time_of
from tests.integration.capture.workload import StartWorkload, undisturbed
from tests.workload import LASTS_NS, LASTS_S

CPU = max(os.sched_getaffinity(0))

LENGTH_NS = 400_000_000

# So that what is to be read at a window's boundaries is read there: before undisturbed() workloads.
BEFORE_OTHERS = ("chrt", "--rr", "2")

# What is read at a window's boundaries is read within a twentieth of it: long enough for that.
WINDOW_S = "20" if is_emulated() else "1"


def found(sample: Sample) -> dict[str, Finding]:
    return {finding.rule: finding for finding in sample.verdict}


def check_taken(finding: Finding, sample: Sample, left_out_ns: int) -> None:
    """The CPU was taken from its thread for no less: others, interrupts or the hypervisor may."""
    assert finding.tid is not None
    its = time_of(thread(sample, finding.tid))
    kept_ns = {
        "cpu_contention": its.ready_ns,
        "interrupt_load": its.hard_irq_ns + its.soft_irq_ns,
        "steal": left_out_ns,
    }
    assert finding.share * sample.window.duration_ns <= 1.01 * kept_ns[finding.rule], finding


def test_a_revalidator_starved_of_cpu(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS, within=undisturbed())
    workload.ask()
    with Competitor(CPU, seconds=LASTS_S) as competitor:
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
    workload = start_workload("spin", CPU, LASTS_NS, within=undisturbed())
    workload.ask()
    stolen_before_ns = stolen_ns()
    capture = start_capture(workload.pid, WINDOW_S, ("--sample-count", "2"), BEFORE_OTHERS)
    samples = capture.samples()
    left_out_ns = most_stolen_ns(stolen_before_ns)
    # The kernel's own count of its time, without which nobody is acquitted, may be read too late.
    counted = [each for each in samples if thread(each, workload.pid).task_times]
    assert counted
    for sample in counted:
        findings = found(sample)
        assert "user_work" in findings, (sample.verdict, sample.lost, sample.threads)
        busy = findings.pop("user_work")
        assert (busy.tid, busy.who, busy.remark) == (workload.pid, "program", True)
        # A twentieth of the CPU is kept from real-time threads (sched_rt_runtime_us), and the
        # hypervisor and interrupts may take some: nobody is accused of more than that.
        for finding in findings.values():
            check_taken(finding, sample, left_out_ns)


def test_a_slow_change_of_bridges(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("maps", CPU, LENGTH_NS, within=undisturbed())
    sample, _ = measure(workload)
    # Others may have the CPU for long where it is emulated.
    besides = ("cpu_contention",) if is_emulated() else ()
    # The threads that its calls start wait for its CPU meanwhile, together about as long.
    worst = next(
        finding
        for finding in sample.verdict
        if finding.rule not in besides and finding.evidence.get("taker_tid") != workload.pid
    )
    assert worst.rule == "kernel_work", sample.verdict
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
    stolen_before_ns = stolen_ns()
    samples = start_capture(ovs.pid, "0.5", ("--sample-count", "4")).samples()
    left_out_ns = most_stolen_ns(stolen_before_ns)
    for sample in samples:
        # A remark may be: of a thread that waits for another, as some do while it begins. And a
        # CPU that others have below the kernel is missed by who is woken on it.
        for finding in sample.verdict:
            if not finding.remark:
                check_taken(finding, sample, left_out_ns)
