"""System calls that a seccomp filter denies have an exit and no entry: they are counted apart."""

from typing import Any

import pytest

from kernel_delay.model import Sample, Thread
from kernel_delay.reporters import text
from tests.emulation import scaled
from tests.integration.capture.captures import Measure, StartCapture, calls, thread
from tests.integration.capture.workload import StartWorkload, known_syscall

GETPPID = known_syscall("getppid")
GETUID = known_syscall("getuid")
WRITE = known_syscall("write")


def without_entry(measured: Thread) -> dict[int, int]:
    return {call.number: call.without_entry for call in measured.syscalls if call.without_entry}


def check_counts(sample: Sample, tid: int, answer: dict[str, Any], count: int) -> None:
    measured = thread(sample, tid)
    assert answer["denied"] == count
    assert without_entry(measured) == {GETPPID: count}
    assert GETPPID not in calls(measured)
    assert calls(measured)[GETUID] == count


def test_denied_by_an_error(start_workload: StartWorkload, measure: Measure) -> None:
    count = scaled(1_000_000)
    workload = start_workload("denied", "error", count)

    sample, answer = measure(workload)

    check_counts(sample, workload.pid, answer, count)
    report = text.render(sample)
    assert f"{count:,} system calls had no entry" in report
    assert not any("not to blame" in finding.text for finding in sample.verdict)


def test_no_time_is_the_programs_own_unsaid(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("denied", "error", 1 << 40)
    workload.send()

    sample = start_capture(workload.pid, "0.5").sample()

    (call,) = (call for call in thread(sample, workload.pid).syscalls if call.without_entry)
    assert call.name == "getppid"
    for finding in sample.verdict:
        if finding.rule == "user_work":
            assert f"{call.without_entry:,} system calls that had no entry" in finding.text
            assert "not to blame" not in finding.text


def test_denied_by_a_trap(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("denied", "trap", 1000)

    sample, answer = measure(workload)

    check_counts(sample, workload.pid, answer, 1000)


def test_denied_by_a_supervisor(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("denied", "notify", 20)

    sample, answer = measure(workload)

    check_counts(sample, workload.pid, answer, 20)
    time = thread(sample, workload.pid).time
    # It slept meanwhile, which is known though no call's; or it was about to, and had no CPU.
    assert time is not None
    assert time.blocked_ns > 0
    not_running_ns = time.blocked_ns + time.ready_ns + time.unaccounted_ns
    assert not_running_ns >= answer["answering_ns"] > 0


def test_a_call_that_kills_is_not_one_of_them(
    start_workload: StartWorkload, measure: Measure
) -> None:
    workload = start_workload("denied", "kill", 1)

    sample, _ = measure(workload)

    (killed,) = (each for each in sample.threads if each.tid != workload.pid)
    assert killed.exited
    assert without_entry(killed) == {}
    assert calls(killed).get(GETUID) == 1


@pytest.mark.usefixtures("measurable")
def test_a_missed_entry_is_none_of_them(start_workload: StartWorkload, measure: Measure) -> None:
    # No filter, and no tracer: whatever is missed is said to be.
    workload = start_workload("calls", f"{GETPPID}={scaled(500_000)}")

    sample, _ = measure(workload)

    assert without_entry(thread(sample, workload.pid)) == {}
    assert "had no entry" not in text.render(sample)
