"""32-bit programs: their calls have numbers of their own, and their stacks are unwound."""

from pathlib import Path

import pytest

from tests.integration.capture.captures import Measure, StartCapture, calls, thread
from tests.integration.capture.workload import I386_RUNS, StartWorkload

pytestmark = pytest.mark.skipif(
    not I386_RUNS, reason="this machine's 32-bit programs are not i386's"
)

# arch/x86/entry/syscalls/syscall_32.tbl
I386 = {"write": 4, "getpid": 20, "getppid": 64, "nanosleep": 162, "futex": 240}


def test_calls_have_the_names_of_their_own_table(
    start_workload: StartWorkload, measure: Measure
) -> None:
    workload = start_workload("calls", f"{I386['getppid']}=1000", "1000=3", compat=True)

    sample, _ = measure(workload)

    found = {
        (stats.abi, stats.number, stats.name): stats.count
        for stats in thread(sample, workload.pid).syscalls
        if stats.count
    }
    assert found == {
        ("i386", I386["getppid"], "getppid"): 1000,
        ("i386", 1000, None): 3,
        ("i386", I386["write"], "write"): 1,
    }


def test_one_number_is_another_call_in_each_abi(
    start_workload: StartWorkload, measure: Measure
) -> None:
    workload = start_workload("both_abis", I386["getpid"], 1000)

    sample, _ = measure(workload)

    found = {
        (stats.abi, stats.name): stats.count
        for stats in thread(sample, workload.pid).syscalls
        if stats.number == I386["getpid"]
    }
    assert found == {("i386", "getpid"): 1000, (None, "writev"): 1000}


def test_sleeping_is_no_fault_of_the_kernels(
    start_workload: StartWorkload, measure: Measure
) -> None:
    # As x86-64's, the number would be that of sync(2).
    workload = start_workload("sleeps", "nanosleep", 20, 5_000_000, compat=True)

    sample, _ = measure(workload)

    slept = [s for s in thread(sample, workload.pid).syscalls if (s.blocked_ns or 0) > 50_000_000]
    assert {stats.name for stats in slept} <= {"nanosleep", "clock_nanosleep", "read"}
    assert "kernel_sleep" not in {finding.rule for finding in sample.verdict}


def test_a_lock_has_its_holder(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("locks", 20, 5_000_000, compat=True)

    sample, seen = measure(workload)

    waits = thread(sample, workload.pid).lock_waits
    assert {wait.tid for wait in waits} == {seen["holder"]}
    assert seen["held_ns"] / 2 < sum(wait.ns for wait in waits) <= seen["waited_ns"]


def test_each_frame_of_a_stack_is_named(
    start_workload: StartWorkload, start_capture: StartCapture, tmp_path: Path
) -> None:
    folded = tmp_path / "folded"
    workload = start_workload("frames", 100, compat=True)
    options = ("--syscall-events", "--syscall-filter", "getppid", "--folded", str(folded))
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()

    workload.ask()
    workload.parked()
    sample = capture.end()

    assert sample.syscall_events is not None
    assert {(event.name, event.abi) for event in sample.syscall_events} == {("getppid", "i386")}
    assert len(sample.syscall_events) == calls(thread(sample, workload.pid))[I386["getppid"]] == 100
    chains = set()
    for event in sample.syscall_events:
        assert event.user_stack is not None
        names = [frame.name or "" for frame in sample.stacks[event.user_stack]]
        chains.add(
            tuple(name for name in names if name in ("inner", "odd", "even", "main", "_start"))
        )
    assert chains == {
        ("inner", "odd", "main", "_start"),
        ("inner", "even", "main", "_start"),
    }
    assert (sample.lost.truncated_stacks, sample.lost.failed_unwinds) == (0, 0)
    lines = folded.read_text().splitlines()
    assert all(line.rpartition(" ")[0].endswith("i386:getppid_[k]") for line in lines)


def test_its_functions_are_triggers(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("frames", 100, compat=True)
    options = ("--start-trigger", "up:odd", "--stop-trigger", "upr:odd", "--sample-count", "5")
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()

    workload.ask()

    for sample in capture.samples():
        assert calls(thread(sample, workload.pid)) == {I386["getppid"]: 1}
