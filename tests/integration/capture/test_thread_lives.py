"""Threads that come and go, a crowd of them, and a process that exits."""

import time

import pytest

from kernel_delay.capture.map_sizes import FEW_THREADS, ring_entries
from kernel_delay.model import Sample, Thread, ThreadTime
from tests.integration.capture.captures import Measure, StartCapture, calls, thread
from tests.integration.capture.workload import StartWorkload, known_syscall

GETPPID = known_syscall("getppid")


def check_sums(measured: Thread, sample: Sample) -> None:
    """Its time is the window, or as many as it stands for."""
    assert measured.time is not None
    its = [getattr(measured.time, part) for part in ThreadTime.__struct_fields__]
    assert sum(its) == measured.threads * sample.window.duration_ns
    assert min(its) >= 0
    takers_ns = sum(taker.ns for taker in measured.cpu_taken_by)
    others_ns = measured.cpu_taken_by_others_ns + measured.cpu_taken_by_unknown_ns
    assert takers_ns + others_ns == measured.time.ready_ns


def test_threads_that_exit_keep_their_last_name(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("names", 20)
    capture = start_capture(workload.pid)
    capture.wait_until_open()

    tids = workload.ask()["tids"]
    workload.wait_until_alone()
    sample = capture.end()

    measured = [thread(sample, tid) for tid in tids]
    assert [t.name for t in measured] == [
        f"{'other' if number % 2 else 'self'}-{number}" for number in range(20)
    ]
    assert all(t.exited for t in measured)
    assert not thread(sample, workload.pid).exited


def test_thread_that_calls_exec_has_its_new_tid(
    start_workload: StartWorkload, measure: Measure
) -> None:
    workload = start_workload("exec", 1000)

    sample, _ = measure(workload)

    callers = {t.tid: calls(t)[GETPPID] for t in sample.threads if GETPPID in calls(t)}
    assert callers == {workload.pid: 1000}


@pytest.mark.long
def test_each_of_a_crowd_is_measured(
    slow_machine: bool, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    if slow_machine:
        pytest.skip("so many threads take minutes on so slow a machine")
    workload = start_workload("crowd", 5_000, 0)
    capture = start_capture(workload.pid)
    capture.wait_until_open()

    workload.ask()
    workload.parked()
    tids = set(workload.tids())
    sample = capture.end()

    assert sample.lost.dropped_records == 0
    assert {t.tid for t in sample.threads} == tids
    assert len(tids) == 5_001
    callers = {t.tid for t in sample.threads if calls(t).get(GETPPID) == 1}
    assert callers == tids - {workload.pid}


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--no-accounting",)])
def test_ended_threads_without_room_are_summed_up(
    options: tuple[str, ...],
    slow_machine: bool,
    start_workload: StartWorkload,
    start_capture: StartCapture,
) -> None:
    if slow_machine:
        pytest.skip("so many threads take minutes on so slow a machine")
    started = 60_000
    workload = start_workload("crowd", 0, started)
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()

    workload.ask()
    workload.wait_until_alone()
    sample = capture.end()

    (ended,) = (t for t in sample.threads if t.threads > 1)
    assert ended.exited
    # Each is there: not one of its events was missed, or it was counted as that. On a busy machine
    # there may be no room for the records of some, which are counted too.
    gone = sample.lost.missed_events + sample.lost.dropped_records
    assert started - gone <= ended.threads <= started
    callers = sum(calls(t).get(GETPPID, 0) for t in sample.threads)
    assert started - gone <= callers <= started
    assert not thread(sample, workload.pid).exited
    if not options:
        for measured in sample.threads:
            check_sums(measured, sample)
        assert ended.time is not None
        assert ended.cpu_taken_by
        assert ended.cpu_taken_by_unknown_ns < ended.time.ready_ns // 2
        unknown_ns = sum(t.time.unaccounted_ns for t in sample.threads if t.time)
        assert unknown_ns <= gone * sample.window.duration_ns


def test_windows_in_a_storm_of_threads_are_accounted_for(
    slow_machine: bool, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    if slow_machine:
        pytest.skip("so many threads take minutes on so slow a machine")
    workload = start_workload("crowd", 0, 1_000_000)
    workload.send()
    options = ("--sample-count", "3", "--sample-interval", "0.2")
    samples = start_capture(workload.pid, "0.5", options).samples()

    assert len(samples) == 3
    for sample in samples:
        ended = [t for t in sample.threads if t.threads > 1]
        for measured in ended:
            check_sums(measured, sample)
            # Each makes one call; of some it lies in another window, or on the boundary of two.
            assert calls(measured)[GETPPID] <= measured.threads
        # Nobody is there twice.
        tids = [t.tid for t in sample.threads if t.threads == 1]
        assert len(set(tids)) == len(tids)
    # Without a CPU the process starts fewer threads in a window than there is room for.
    room = ring_entries(-len(FEW_THREADS))["thread_records"]
    most = max(sum(t.threads for t in sample.threads) for sample in samples)
    assert most < room // 2 or any(t.threads > 1 for sample in samples for t in sample.threads)


def test_a_process_that_exits_ends_the_window(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("calls", f"{GETPPID}=1000")
    capture = start_capture(workload.pid)
    capture.wait_until_open()

    workload.ask()
    before_ns = time.monotonic_ns()
    workload.finish()
    sample = capture.sample()

    assert sample.window.ended_by == "exit"
    assert before_ns < sample.window.stop_ns < time.monotonic_ns()
    measured = thread(sample, workload.pid)
    assert measured.exited
    assert calls(measured)[GETPPID] == 1000
