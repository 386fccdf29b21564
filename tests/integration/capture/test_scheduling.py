"""Running, ready and stopped: against /proc and what is known from outside."""

import os
import signal
import subprocess
import time

import pytest

from kernel_delay.model import Intervals, Thread
from tests.emulation import few
from tests.integration.capture.captures import StartCapture, thread
from tests.integration.capture.scheduler_clock import Lag, SchedulerClock
from tests.integration.capture.workload import SchedStat, StartWorkload, Workload
from tests.integration.oracles import StartBpftrace
from tests.workload import wait_until

CPU = max(os.sched_getaffinity(0))

NONE = Intervals(count=0, total_ns=0, min_ns=0, max_ns=0)

# Of the times that a thread is preempted, so that some that were missed don't matter.
ENOUGH = 100

# And so many calls in which it is not are too many: mostly there are less than a hundred.
MOST_CALLS = 1000

STOPS = 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "spinners", "sleepers"),
    few(
        [
            pytest.param("--rr", 2, 0, id="two busy threads, undisturbed"),
            pytest.param("--rr", 0, 3, id="threads that also sleep, undisturbed"),
            pytest.param("--other", 2, 0, id="two busy threads among others"),
        ],
        3,
    ),
)
def test_schedstat_says_the_same(
    policy: str,
    spinners: int,
    sleepers: int,
    slow_machine: bool,
    start_workload: StartWorkload,
    start_bpftrace: StartBpftrace,
    start_capture: StartCapture,
) -> None:
    scheduled = ("chrt", policy, "1" if policy == "--rr" else "0")
    if subprocess.run([*scheduled, "true"], capture_output=True).returncode:
        pytest.skip("no real-time scheduling here: others would disturb")

    workload = start_workload("busy", CPU, 2_000_000_000, spinners, sleepers, within=scheduled)
    before = workload.parked()
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    clock = SchedulerClock(workload, start_bpftrace)
    workload.ask()
    after = workload.parked()
    sample, lags = capture.end(), clock.end()
    expected = {tid: total.since(before[tid]) for tid, total in after.items()}
    assert len(expected) == spinners + sleepers + 1
    comparisons = [Comparison(thread(sample, tid), expected[tid], lags[tid]) for tid in expected]
    for comparison in comparisons:
        comparison.check_counts()
        # A switch takes so long there that lengths say nothing.
        if not slow_machine:
            comparison.check_lengths()
    # A kernel may keep the programs from an event: before 6.2 in an interrupt that comes while a
    # thread's storage is looked up, and some hypervisors' kernels in some processes of their own.
    # A missed switch to a thread is one: the end of a wait, the start of a run.
    missed = sum(comparison.missed for comparison in comparisons)
    assert missed <= 2 * sample.lost.missed_events
    assert missed <= sum(total.runs for total in expected.values()) // 2


class Comparison:
    """A thread's run and ready against what schedstat says of the same time.

    All threads sleep at both of the window's boundaries: no run is cut.
    """

    def __init__(self, measured: Thread, expected: SchedStat, lag: Lag) -> None:
        """Compare `measured`, from which the scheduler's clock may be as far as `lag` says."""
        self.run, self.ready = measured.run or NONE, measured.ready or NONE
        self.expected = expected
        self.run_ns, self.ready_ns = expected.run_ns + lag.stopped_ns, expected.ready_ns
        self.run_apart_ns, self.ready_apart_ns = (
            max(200_000, expected_ns // 100) + lag.apart_ns(expected)
            for expected_ns in (self.run_ns, self.ready_ns)
        )
        self.missed = 2 * expected.runs - self.run.count - self.ready.count

    def check_counts(self) -> None:
        assert self.run.count <= self.expected.runs
        assert self.ready.count <= self.expected.runs

    def check_lengths(self) -> None:
        run, ready = self.run, self.ready
        assert run.total_ns <= self.run_ns + self.run_apart_ns
        assert ready.total_ns <= self.ready_ns + self.ready_apart_ns
        if run.count == self.expected.runs:
            assert self.run_ns - self.run_apart_ns <= run.total_ns
        if ready.count == self.expected.runs:
            assert self.ready_ns - self.ready_apart_ns <= ready.total_ns


def test_preempted_while_its_state_says_sleeping_is_ready(
    slow_machine: bool,
    start_workload: StartWorkload,
    start_bpftrace: StartBpftrace,
    start_capture: StartCapture,
) -> None:
    # Shorter pauses would leave a slow machine's thread no time to get on; longer ones than the
    # call, none in it.
    pause_ns = 1_000_000 if slow_machine else 100_000

    workload = start_workload("reap", CPU, 1_000 if slow_machine else 5_000, pause_ns)
    if not workload.ready["competitor"]:
        pytest.skip("no SCHED_FIFO here: nothing preempts reliably")
    # prev_state is TASK_REPORT_MAX, 256, of a thread that is preempted
    # (include/trace/events/sched.h:__trace_sched_switch_state()). Its own state is
    # TASK_INTERRUPTIBLE, 1, in some calls with TASK_FREEZABLE (include/linux/sched.h, 6.1).
    enough = ENOUGH // 5 if slow_machine else ENOUGH
    bpftrace = start_bpftrace(
        f"tracepoint:sched:sched_switch /args->prev_pid == {workload.pid}"
        " && args->prev_state == 256 && ((struct task_struct *)curtask)->__state & 1/"
        f" {{ @preempted++; if (@preempted == {enough}) {{ exit(); }} }}"
    )
    before = workload.parked()[workload.pid]
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    took_ns = calls = 0
    # How often in a call depends on the CPU and on who else wants it.
    while not bpftrace.has_ended():
        took_ns += workload.ask()["took_ns"]
        calls += 1
        assert calls < MOST_CALLS, "it is not preempted while its state says that it sleeps"
    runs = workload.parked()[workload.pid].since(before).runs
    sample = capture.end()
    measured = thread(sample, workload.pid)
    assert measured.run is not None
    assert measured.ready is not None
    # To schedstat it was not ready then, as for us if it were taken for asleep: it has the other
    # waits alone (kernel/sched/stats.h:sched_info_depart(), 5.14 to 6.18).
    assert measured.ready.count > runs
    if not sample.lost.missed_events:
        # It never slept meanwhile: all that time it was the one or the other.
        assert measured.run.total_ns + measured.ready.total_ns >= took_ns


def wait_until_it_left(workload: Workload, state: str, slept: int) -> None:
    """Wait until it is off its CPU in this `state`, not only about to be: `slept` was before."""
    pid = workload.pid
    wait_until(lambda: workload.state(pid) == state and workload.slept(pid) > slept)


def stop(workload: Workload) -> tuple[int, int]:
    """Stop it, and have it go on; how long it stood at least and at most."""
    sleeping = workload.slept(workload.pid)
    sent_ns = time.monotonic_ns()
    os.kill(workload.pid, signal.SIGSTOP)
    wait_until_it_left(workload, "T", sleeping)
    stopped_ns, stopped = time.monotonic_ns(), workload.slept(workload.pid)
    time.sleep(0.02)
    least_ns = time.monotonic_ns() - stopped_ns
    os.kill(workload.pid, signal.SIGCONT)
    wait_until_it_left(workload, "S", stopped)
    return least_ns, time.monotonic_ns() - sent_ns


def test_stopped_is_as_long_as_seen_from_both_sides(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("calls")
    workload.parked()

    capture = start_capture(workload.pid)
    capture.wait_until_open()
    seen = [stop(workload) for _ in range(STOPS)]
    sample = capture.end()
    stopped = thread(sample, workload.pid).stopped
    assert stopped is not None
    assert STOPS - sample.lost.missed_events <= stopped.count <= STOPS
    assert min(least for least, _ in seen) <= stopped.min_ns
    assert stopped.max_ns <= max(most for _, most in seen)
    assert stopped.total_ns <= sum(most for _, most in seen)
    if stopped.count == STOPS:
        assert sum(least for least, _ in seen) <= stopped.total_ns
