"""The time that a thread spends in a virtual machine's code is no system call's."""

import os
from pathlib import Path

import pytest

from tests.emulation import is_emulated
from tests.integration.capture.captures import Measure, thread
from tests.integration.capture.workload import StartWorkload

RUN_NS = 1_000_000_000
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

# guest_time of proc_pid_stat(5), counted after the name.
GUEST_TIME = 40


def guest_time_ns(tid: int) -> int:
    fields = Path(f"/proc/{tid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[GUEST_TIME]) * TICK_NS


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the machine is x86's")
def test_guest_time_is_as_the_kernel_says(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("machine", RUN_NS)
    if not workload.ready["there"]:
        pytest.skip("this machine has no KVM")
    before_ns = guest_time_ns(workload.pid)
    before = workload.schedstat(workload.pid)

    sample, _ = measure(workload)

    by_kernel_ns = guest_time_ns(workload.pid) - before_ns
    run_ns = workload.schedstat(workload.pid).since(before).run_ns
    measured = thread(sample, workload.pid)
    (ioctl,) = (call for call in measured.syscalls if call.name == "ioctl")
    assert measured.time is not None
    assert ioctl.guest_ns == measured.time.guest_ns
    # A KVM that emulates instructions has no guest time, by the kernel's count either. An emulated
    # CPU that waits for one of the host's loses ticks, by which the kernel counts.
    assert measured.time.guest_ns >= 0.9 * by_kernel_ns - 5 * TICK_NS
    most_ns = run_ns if is_emulated() else min(run_ns, 1.1 * by_kernel_ns + 5 * TICK_NS)
    assert measured.time.guest_ns <= most_ns
    # KVM's own thread in the process, where it is one, as vhost's are (kernel/vhost_task.c).
    own = [each for each in sample.threads if each.name.startswith("kvm-nx-lpage")]
    assert all(each.kernel_worker and not each.syscalls for each in own)
    if by_kernel_ns > RUN_NS / 2:
        assert "kernel_work" not in {finding.rule for finding in sample.verdict}
