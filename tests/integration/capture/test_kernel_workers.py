"""Threads that the kernel makes in a process to work for it: io_uring's."""

import pytest

from kernel_delay.reporters import text
from tests.integration.capture.captures import StartCapture, thread
from tests.integration.capture.scheduler_clock import UNKNOWN, SchedulerClock
from tests.integration.capture.workload import SchedStat, StartWorkload
from tests.integration.oracles import StartBpftrace

WORK_NS = 300_000_000

APART_NS = 1_000_000


@pytest.mark.parametrize(
    ("kind", "comm"),
    [("worker", "iou-wrk-"), pytest.param("poller", "iou-sqp-", marks=pytest.mark.long)],
)
def test_its_time_is_the_kernels_and_no_calls(
    kind: str,
    comm: str,
    slow_machine: bool,
    start_workload: StartWorkload,
    start_bpftrace: StartBpftrace,
    start_capture: StartCapture,
) -> None:
    workload = start_workload("uring", kind, WORK_NS)
    if not workload.ready["there"]:
        pytest.skip("this kernel, or its io_uring_disabled, has no io_uring")
    before = workload.parked()
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    clock = None if slow_machine else SchedulerClock(workload, start_bpftrace)
    workload.ask()
    after = workload.parked()
    sample, lags = capture.end(), clock.end() if clock else {}

    workers = [each for each in sample.threads if each.name.startswith(comm)]
    assert workers
    for worker in workers:
        assert worker.kernel_worker
        assert not worker.syscalls
        assert worker.time is not None
        assert worker.time.user_ns == 0
        on_cpu_ns = worker.time.kernel_ns + worker.time.hard_irq_ns + worker.time.soft_irq_ns
        # One that is idle for 5 s exits (io_uring/io-wq.c:WORKER_IDLE_TIMEOUT, 5.14 to 6.18).
        if not slow_machine and worker.tid in after:
            by_kernel = after[worker.tid].since(before.get(worker.tid, SchedStat(0, 0, 0)))
            lag = lags.get(worker.tid, UNKNOWN)
            by_kernel_ns = by_kernel.run_ns + lag.stopped_ns
            apart_ns = by_kernel_ns // 50 + APART_NS + lag.apart_ns(by_kernel)
            # Less, where a switch was missed.
            least_ns = by_kernel_ns - apart_ns - worker.time.unaccounted_ns
            assert least_ns <= on_cpu_ns <= by_kernel_ns + apart_ns
    own = thread(sample, workload.pid)
    assert not own.kernel_worker
    assert "kernel, worker" in text.render(sample)
    for finding in sample.verdict:
        if finding.tid != own.tid:
            assert finding.rule in ("kernel_worker", "cpu_contention", "interrupt_load", "steal")
