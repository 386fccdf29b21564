"""PREEMPT_RT: the handler of an interrupt is a thread, and its time is told as that thread's."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.capture.captures import StartCapture, thread
from tests.integration.capture.workload import StartWorkload
from tests.needs import is_preempt_rt
from tests.workload import LASTS_NS

INTERRUPTS = Path("/proc/irq")
CPU = 0


@pytest.fixture
def realtime() -> None:
    """Skips where interrupts are no threads."""
    if not is_preempt_rt():
        pytest.skip("interrupts are threads only with PREEMPT_RT")


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """All interrupts that can be moved come to CPU meanwhile."""
    before = {}
    for file in INTERRUPTS.glob("*/smp_affinity_list"):
        old = file.read_text()
        try:
            file.write_text(str(CPU))
        except OSError:  # per CPU, or managed by its driver
            continue
        before[file] = old
    try:
        yield
    finally:
        for file, old in before.items():
            file.write_text(old)


@contextmanager
def opening_files() -> Iterator[None]:
    """Open a file of this tree again and again: in a guest each is a message to the host."""
    done = threading.Event()

    def work() -> None:
        os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0) - {CPU})
        while not done.is_set():
            os.close(os.open(__file__, os.O_RDONLY))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


def handlers() -> dict[int, int]:
    """How long each of the handlers' threads has run, in ns (proc_pid_schedstat(5))."""
    ran = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if (folder / "comm").read_text(errors="replace").startswith("irq/"):
            ran[int(folder.name)] = int((folder / "schedstat").read_text().split()[0])
    return ran


def ran_since(before: dict[int, int]) -> dict[int, int]:
    """How long each has run since."""
    return {tid: ns - before.get(tid, 0) for tid, ns in handlers().items()}


def test_a_handler_is_a_thread_that_takes_the_cpu(
    realtime: None, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU alone")
    with on_one_cpu(), opening_files():
        before = handlers()
        threading.Event().wait(0.5)
        if not any(ran_since(before).values()):
            pytest.skip("to open a file makes no interrupt here")
        workload = start_workload("spin", CPU, LASTS_NS)
        workload.ask()
        before = handlers()
        capture = start_capture(workload.pid)
        capture.wait_until_open()
        threading.Event().wait(1)
        measured = thread(capture.end(), workload.pid)
        ran = ran_since(before)
    took = {taker.tid: taker.ns for taker in measured.cpu_taken_by if taker.tid in ran}
    assert took
    # Within the window a handler took the CPU from this thread no longer than it ran in all.
    assert all(ns <= ran[tid] for tid, ns in took.items()), (took, ran)
