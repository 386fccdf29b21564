"""Page faults: how many and how long, against what the process itself and its server know."""

import os
from pathlib import Path
from typing import Any

import pytest

from kernel_delay.analysis.verdict.kernel_work import PAGE_FAULTS
from kernel_delay.model import Finding, PageFaults, Sample, Thread
from tests.integration.capture.captures import Measure, thread
from tests.integration.capture.workload import StartWorkload, undisturbed

CPU = max(os.sched_getaffinity(0))

# The size of a huge page.
HUGE_PAGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")

# Pages of the stack and of libc that are touched in the window, besides the workload's own.
OTHERS = 40

# A fault is tried again with another lock held when the memory area is new to the kernel, and
# when it slept (VM_FAULT_RETRY; arch/x86/mm/fault.c:do_user_addr_fault(), 5.14 to 7.2).
TRIES = 3


def faults_of(measured: Thread) -> PageFaults:
    if measured.page_faults is None:
        pytest.skip("this kernel takes no fentry program, so page faults are not counted")
    return measured.page_faults


def taken(
    start_workload: StartWorkload, measure: Measure, kind: str, count: int, length_ns: int = 0
) -> tuple[Sample, int, dict[str, Any]]:
    """What was measured, of which thread, and what the workload saw."""
    workload = start_workload("faults", CPU, kind, count, length_ns, within=undisturbed())
    sample, seen = measure(workload)
    assert seen["faults"] >= count
    return sample, workload.pid, seen


def test_each_is_counted(start_workload: StartWorkload, measure: Measure) -> None:
    sample, tid, seen = taken(start_workload, measure, "small", 4000)
    faults = faults_of(thread(sample, tid))
    least = seen["faults"] - sample.lost.missed_events
    assert least <= faults.count <= seen["faults"] + OTHERS
    assert faults.on_cpu_ns > 0


def test_their_time_is_the_kernels(start_workload: StartWorkload, measure: Measure) -> None:
    need_huge_pages()
    count = 64
    sample, tid, seen = taken(start_workload, measure, "huge", count)
    measured = thread(sample, tid)
    faults = faults_of(measured)
    assert measured.time is not None
    # To clear a huge page takes most of all that the thread does.
    assert faults.on_cpu_ns > 2 * measured.time.user_ns
    assert faults.on_cpu_ns <= measured.time.kernel_ns
    mean_ns = faults.on_cpu_ns / faults.count
    assert faults.on_cpu_ns <= seen["took_ns"] + OTHERS * mean_ns
    assert all(found.tid == tid for found in findings_on(faults, sample))


def need_huge_pages() -> None:
    """Skips where there are none, or where they have 512 MiB, as with small ones of 64 KiB."""
    if not HUGE_PAGE.exists() or int(HUGE_PAGE.read_text()) > 2 << 20:
        pytest.skip("this kernel has no huge pages of 2 MiB")


def findings_on(faults: PageFaults, sample: Sample) -> list[Finding]:
    """What is said of them: something, unless others made the window too long for that."""
    found = [finding for finding in sample.verdict if finding.rule == PAGE_FAULTS.name]
    share = (faults.on_cpu_ns + faults.blocked_ns) / sample.window.duration_ns
    assert len(found) == (share >= PAGE_FAULTS.least_share)
    return found


def test_one_that_sleeps_is_blocked_as_long(
    start_workload: StartWorkload, measure: Measure
) -> None:
    count, length_ns = 20, 5_000_000
    sample, tid, seen = taken(start_workload, measure, "served", count, length_ns)
    measured = thread(sample, tid)
    faults = faults_of(measured)
    least = seen["faults"] - sample.lost.missed_events
    assert least <= faults.count <= TRIES * count + OTHERS
    assert measured.time is not None
    # Of one whose switch was missed it is not known.
    unknown_ns = measured.time.unaccounted_ns
    assert count * length_ns - unknown_ns <= faults.blocked_ns <= seen["took_ns"]
    assert faults.blocked_ns <= measured.time.blocked_ns
    assert all("The thread slept " in found.text for found in findings_on(faults, sample))
