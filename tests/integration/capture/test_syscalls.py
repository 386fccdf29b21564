"""System calls: exact counts, and lengths between what is known from both sides."""

import pytest

from tests.integration.capture.captures import Measure, StartCapture, calls, thread
from tests.integration.capture.workload import I386_RUNS, StartWorkload, known_syscall
from tests.integration.oracles import StartBpftrace

GETPPID = known_syscall("getppid")
READ = known_syscall("read")
WRITE = known_syscall("write")


def test_each_call_is_counted(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("calls", f"{GETPPID}=100000")

    sample, _ = measure(workload)

    # The read it slept in at the window's opening had begun before, and the
    # one at the end did not return.
    assert calls(thread(sample, workload.pid)) == {GETPPID: 100_000, WRITE: 1}
    assert sample.lost.dropped_records == 0


def test_unknown_numbers_are_counted_as_numbers(
    start_workload: StartWorkload, measure: Measure
) -> None:
    # Among them the smallest and largest there are.
    unknown = {999: 3, -1: 5, -2: 7, (1 << 31) - 1: 4, -(1 << 31): 6, 511: 8, 512: 9, 1023: 2}
    workload = start_workload("calls", *(f"{number}={n}" for number, n in unknown.items()))

    sample, _ = measure(workload)

    measured = thread(sample, workload.pid)
    assert calls(measured) == unknown | {WRITE: 1}
    assert [stats.name for stats in measured.syscalls if stats.number in unknown] == [None] * 8


def test_calls_that_share_a_place_are_counted_apart(
    start_workload: StartWorkload, measure: Measure
) -> None:
    # bpf/thread_records.h: DIRECT_SYSCALLS is 512. The turns are taken back and forth.
    shared = {GETPPID: 500, GETPPID + 512: 300, GETPPID + 1024: 200}
    turns = [f"{number}={count // 2}" for number, count in shared.items()] * 2
    workload = start_workload("calls", *turns)

    sample, _ = measure(workload)

    measured = thread(sample, workload.pid)
    assert calls(measured) == shared | {WRITE: 1}
    assert len({(stats.abi, stats.number) for stats in measured.syscalls}) == len(measured.syscalls)


@pytest.mark.skipif(not I386_RUNS, reason="x32 is a sibling of x86-64")
def test_x32_calls_have_their_own_names(start_workload: StartWorkload, measure: Measure) -> None:
    # arch/x86/entry/syscalls/syscall_64.tbl: 514 is x32's ioctl, 13 is only x86-64's.
    x32 = {(1 << 30) + 110: 4, (1 << 30) + 514: 3, (1 << 30) + 13: 2}
    workload = start_workload("calls", *(f"{number}={n}" for number, n in x32.items()))

    sample, _ = measure(workload)

    named = {
        stats.number: (stats.name, stats.abi, stats.count)
        for stats in thread(sample, workload.pid).syscalls
        if stats.number in x32
    }
    assert named == {
        (1 << 30) + 110: ("getppid", "x32", 4),
        (1 << 30) + 514: ("ioctl", "x32", 3),
        (1 << 30) + 13: (None, "x32", 2),
    }


@pytest.mark.parametrize("name", ["nanosleep", "futex"])
def test_lengths_are_as_seen_from_outside(
    name: str, start_workload: StartWorkload, measure: Measure
) -> None:
    count, length_ns = 20, 5_000_000
    workload = start_workload("sleeps", name, count, length_ns)

    sample, outside = measure(workload)

    (stats,) = (s for s in thread(sample, workload.pid).syscalls if s.name == name)
    assert stats.count == count
    assert count * length_ns <= stats.total_ns <= outside["total_ns"]
    assert length_ns <= stats.max_ns <= outside["max_ns"]


def test_bpftrace_counts_the_same(
    start_workload: StartWorkload, start_bpftrace: StartBpftrace, start_capture: StartCapture
) -> None:
    names = ("getuid", "getppid", "sched_yield")
    mixture = [f"{known_syscall(name)}={1000 * n}" for n, name in enumerate(names, 1)]
    workload = start_workload("calls", *mixture)
    bpftrace = start_bpftrace(
        f"tracepoint:raw_syscalls:sys_exit /tid == {workload.pid}/ {{ @[args->id] = count(); }}"
    )
    capture = start_capture(workload.pid)
    capture.wait_until_open()

    workload.ask()
    workload.parked()
    sample = capture.end()

    by_bpftrace = {int(number): count for number, count in bpftrace.end()["@"].items()}
    # bpftrace sees the exit of the read whose entry was before the window.
    assert by_bpftrace.pop(READ) == 1
    assert calls(thread(sample, workload.pid)) == by_bpftrace
