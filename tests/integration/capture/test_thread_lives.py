"""Threads that come and go, a crowd of them, and a process that exits."""

import time

import pytest

from tests.integration.capture.captures import Measure, StartCapture, calls, thread
from tests.integration.capture.workload import StartWorkload, known_syscall

GETPPID = known_syscall("getppid")


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


def test_a_thread_that_calls_exec_has_the_id_it_got(
    start_workload: StartWorkload, measure: Measure
) -> None:
    workload = start_workload("exec", 1000)

    sample, _ = measure(workload)

    callers = {t.tid: calls(t)[GETPPID] for t in sample.threads if GETPPID in calls(t)}
    assert callers == {workload.pid: 1000}


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

    assert sample.lost.map_entries == 0
    assert {t.tid for t in sample.threads} == tids
    assert len(tids) == 5_001
    callers = {t.tid for t in sample.threads if calls(t).get(GETPPID) == 1}
    assert callers == tids - {workload.pid}


def test_threads_without_room_are_counted(
    slow_machine: bool, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    if slow_machine:
        pytest.skip("so many threads take minutes on so slow a machine")
    started = 20_000
    workload = start_workload("crowd", 0, started)
    capture = start_capture(workload.pid)
    capture.wait_until_open()

    workload.ask()
    workload.wait_until_alone()
    sample = capture.end()

    gone = [t for t in sample.threads if t.exited]
    assert 0 < len(gone) < started
    assert len(gone) + sample.lost.map_entries + sample.lost.missed_events >= started
    assert not thread(sample, workload.pid).exited


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
