"""Where the time went: the parts are the window, and agree with what others know of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernel_delay.model import Sample, SyscallStats, Thread, ThreadTime
from lab.instance import Instance
from tests.emulation import is_emulated
from tests.integration.capture.captures import Measure, StartCapture, thread
from tests.integration.capture.scheduler_clock import (
    UNKNOWN,
    Account,
    SchedulerClock,
    disagreements,
)
from tests.integration.capture.workload import StartWorkload, known_syscall, undisturbed
from tests.integration.oracles import StartBpftrace
from tests.workload import LASTS_NS, wait_until

CPU = max(os.sched_getaffinity(0))

SHORT_NS = 300_000_000

# Between two calls of a loop of them lies no more, also where the CPU is shared: what is missed
# comes in clusters of 13 ms.
CALLS_APART_NS = 30_000_000


def time_of(measured: Thread) -> ThreadTime:
    assert measured.time is not None
    return measured.time


def running_ns(measured: Thread) -> int:
    """How long it was on a CPU, by its account."""
    its = time_of(measured)
    return its.user_ns + its.kernel_ns + its.hard_irq_ns + its.soft_irq_ns


def in_calls_ns(call: SyscallStats) -> int:
    parts = (
        call.on_cpu_ns,
        call.ready_ns,
        call.blocked_ns,
        call.stopped_ns,
        call.unaccounted_ns,
    )
    return sum(part for part in parts if part is not None)


def check(sample: Sample, missed: bool = False) -> None:
    """The parts make the window, to the nanosecond, and those of calls are shares of it.

    `missed`: events were, in it or, as that may show later, in one next to it.
    """
    window_ns = sample.window.duration_ns
    assert sample.threads
    for measured in sample.threads:
        its = time_of(measured)
        parts = [getattr(its, field) for field in ThreadTime.__struct_fields__]
        assert min(parts) >= 0, its
        assert sum(parts) == window_ns, its
        # A record that had no room is said as that, and its time is unaccounted too.
        if not missed and not sample.lost.missed_events and not sample.lost.dropped_records:
            assert its.unaccounted_ns <= window_ns // 1000, (its, sample.lost)
        assert measured.preempted_ns is not None
        assert measured.preempted_ns <= its.ready_ns
        check_causes(measured)
        check_calls(measured)


def check_causes(measured: Thread) -> None:
    """Those of a state are all of its time, boundaries included."""
    its = time_of(measured)
    takers_ns = sum(taker.ns for taker in measured.cpu_taken_by)
    others_ns = measured.cpu_taken_by_others_ns + measured.cpu_taken_by_unknown_ns
    assert takers_ns + others_ns == its.ready_ns, measured
    in_futex_ns = sum(call.blocked_ns or 0 for call in measured.syscalls if call.name == "futex")
    locks_ns = sum(wait.ns for wait in measured.lock_waits) + measured.lock_waits_others_ns
    assert locks_ns <= in_futex_ns


def check_lengths(call: SyscallStats) -> None:
    """Each call of bucket n took from 2^n ns on, and less than twice as much."""
    assert sum(call.histogram) == call.count
    least_ns = sum(count << bucket for bucket, count in enumerate(call.histogram))
    # The first has those of 0 ns too, and the last all that are longer.
    assert least_ns - sum(call.histogram[:1]) <= call.total_ns, call
    if not call.histogram[31:]:
        assert call.total_ns < 2 * least_ns + (call.count == 0), call
    if call.count:
        longest = max(bucket for bucket, count in enumerate(call.histogram) if count)
        assert longest == min(31, max(0, call.max_ns.bit_length() - 1)), call


def check_gaps(sample: Sample, longest_ns: int) -> None:
    """Unaccounted is no more than lies between two events, for each that was missed."""
    missed = sample.lost.missed_events - sample.lost.missed_others_switches
    for measured in sample.threads:
        most_ns = sample.window.duration_ns // 1000 + missed * longest_ns
        assert time_of(measured).unaccounted_ns <= most_ns, (measured, sample.lost)


def check_calls(measured: Thread) -> None:
    its = time_of(measured)
    for call in measured.syscalls:
        assert in_calls_ns(call) >= call.total_ns, call
        check_lengths(call)
    for parts, whole in (
        ([call.ready_ns for call in measured.syscalls], its.ready_ns),
        ([call.blocked_ns for call in measured.syscalls], its.blocked_ns),
        ([call.stopped_ns for call in measured.syscalls], its.stopped_ns),
    ):
        assert sum(part or 0 for part in parts) <= whole
    in_kernel_ns = its.kernel_ns + its.hard_irq_ns + its.soft_irq_ns
    assert sum(call.on_cpu_ns or 0 for call in measured.syscalls) <= in_kernel_ns


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("busy", (CPU, SHORT_NS, 2, 0)),
        ("busy", (CPU, SHORT_NS, 1, 4)),
        ("calls", (f"{known_syscall('getppid')}={400_000 // (1 + 9 * is_emulated())}",)),
        ("sleeps", ("futex", 20, 2_000_000)),
        ("polls", ("epoll_wait", 20, 2_000_000)),
        ("packets", (CPU, SHORT_NS)),
        ("crowd", (50, 400)),
        ("locks", (20, 2_000_000)),
        ("maps", (CPU, SHORT_NS)),
        ("spin", (CPU, SHORT_NS)),
    ],
)
def test_the_parts_of_each_thread_are_the_window(
    name: str, arguments: tuple[object, ...], start_workload: StartWorkload, measure: Measure
) -> None:
    workload = start_workload(name, *arguments)
    sample, _ = measure(workload)
    check(sample)
    if name == "calls":
        check_gaps(sample, CALLS_APART_NS)
    # All that are there are accounted for, also those that sleep all the time.
    assert {measured.tid for measured in sample.threads} >= set(workload.tids())


@pytest.mark.parametrize("interval", ["0", pytest.param("0.02", marks=pytest.mark.long)])
def test_windows_that_follow_each_other_are_each_accounted_for(
    interval: str, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("busy", CPU, LASTS_NS, 1, 4)
    workload.send()
    options = ("--sample-count", "20", "--sample-interval", interval)
    samples = start_capture(workload.pid, "0.03", options).samples()
    assert len(samples) == 20
    missed = any(sample.lost.missed_events for sample in samples)
    for sample in samples:
        check(sample, missed)


def test_windows_between_triggers_are_each_accounted_for(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("sleeps", "nanosleep", 50_000, 1_000_000)
    workload.send()
    trigger = "t:sched:sched_switch"
    options = ("--start-trigger", trigger, "--sample-count", "50")
    samples = start_capture(workload.pid, "0.001", options).samples()
    assert len(samples) == 50
    missed = any(sample.lost.missed_events for sample in samples)
    for sample in samples:
        check(sample, missed)


@pytest.mark.usefixtures("measurable")
def test_all_threads_of_a_loaded_open_vswitch(
    busy_ovs: Instance, start_capture: StartCapture
) -> None:
    before = set(os.listdir(f"/proc/{busy_ovs.pid}/task"))
    samples = start_capture(busy_ovs.pid, "0.2", ("--sample-count", "5")).samples()
    stayed = before & set(os.listdir(f"/proc/{busy_ovs.pid}/task"))
    missed = any(sample.lost.missed_events for sample in samples)
    for sample in samples:
        check(sample, missed)
        assert {str(measured.tid) for measured in sample.threads} >= stayed


@pytest.mark.parametrize(
    ("spinners", "sleepers"),
    [
        pytest.param(2, 0, id="two busy threads", marks=pytest.mark.long),
        pytest.param(1, 4, id="sleepers among them"),
    ],
)
def test_schedstat_says_the_same(
    spinners: int,
    sleepers: int,
    start_workload: StartWorkload,
    start_bpftrace: StartBpftrace,
    start_capture: StartCapture,
) -> None:
    arguments = (CPU, 1_000_000_000, spinners, sleepers)
    workload = start_workload("busy", *arguments, within=undisturbed())
    before = workload.parked()
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    clock = SchedulerClock(workload, start_bpftrace)
    workload.ask()
    after = workload.parked()
    sample, lags = capture.end(), clock.end()
    check(sample)
    # All sleep at both boundaries of the window, where schedstat is up to date.
    for tid, total in after.items():
        measured = thread(sample, tid)
        its = time_of(measured)
        account = Account(running_ns(measured), its.ready_ns, its.unaccounted_ns)
        if not its.unaccounted_ns and not sample.lost.missed_events:
            # Each run and each wait is whole, so that their sums are the account's. Where an event
            # was missed the scheduler's counts may tell how long they were, and not of how many.
            assert measured.run is not None
            assert measured.run.total_ns == running_ns(measured)
            assert (measured.ready.total_ns if measured.ready else 0) == its.ready_ns
        assert disagreements(account, total.since(before[tid]), lags.get(tid, UNKNOWN)) == []


def cpu_time_ns(pid: int) -> int:
    """How long the process ran until now: a clock that does not wait for a tick.

    The id of another process's clock is made as in include/linux/posix-timers_types.h (6.18):
    the PID's complement, and CPUCLOCK_SCHED.
    """
    return time.clock_gettime_ns((~pid << 3) | 2)


def waited_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def test_a_thread_that_never_leaves_its_program(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    workload.ask()
    outer_ns, outer_waited_ns = cpu_time_ns(workload.pid), waited_ns(workload.pid)
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    inner_ns = cpu_time_ns(workload.pid)
    time.sleep(0.5)
    inner_ns = cpu_time_ns(workload.pid) - inner_ns
    sample = capture.end()
    ended_ns = cpu_time_ns(workload.pid)
    outer_ns = ended_ns - outer_ns
    # A wait is added when it is over: the one that it may be in just now.
    wait_until(lambda: cpu_time_ns(workload.pid) > ended_ns)
    outer_waited_ns = waited_ns(workload.pid) - outer_waited_ns

    check(sample)
    measured = thread(sample, workload.pid)
    its = time_of(measured)
    known_ns = running_ns(measured) + its.ready_ns
    assert known_ns + its.unaccounted_ns == sample.window.duration_ns
    # What was stolen from the machine is in the window, and in no CPU's clock.
    tolerance_ns = max(200_000, its.user_ns // 100)
    assert inner_ns - tolerance_ns <= running_ns(measured) + its.unaccounted_ns
    assert running_ns(measured) <= max(outer_ns, sample.window.duration_ns) + tolerance_ns
    assert its.ready_ns <= outer_waited_ns + 200_000
    # All but interrupts, which may be of others' doing.
    assert its.kernel_ns <= 0.1 * running_ns(measured)


@pytest.mark.usefixtures("earlier_calls")
def test_a_thread_that_sleeps_throughout(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("calls")
    workload.parked()
    sample = start_capture(workload.pid, "0.1").sample()
    (measured,) = sample.threads
    assert time_of(measured).blocked_ns == sample.window.duration_ns
    (call,) = measured.syscalls
    assert (call.name, call.count, call.total_ns) == ("read", 0, 0)
    assert call.blocked_ns == sample.window.duration_ns


def test_a_calls_time_is_split(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("sleeps", "nanosleep", 20, 3_000_000)
    sample, _ = measure(workload)
    number = known_syscall("nanosleep")
    (call,) = (c for c in thread(sample, workload.pid).syscalls if c.number == number)
    missed = sample.lost.missed_events
    # One whose entry or return was missed is not counted.
    assert in_calls_ns(call) == call.total_ns or (missed and in_calls_ns(call) > call.total_ns)
    assert call.count >= 20 - missed
    assert call.blocked_ns is not None
    assert call.unaccounted_ns is not None
    # Of a sleep whose switch was missed all is unaccounted.
    assert call.blocked_ns + call.unaccounted_ns >= call.count * 2_900_000
    assert call.blocked_ns <= call.total_ns


READS = """
import os
fd, buffer = os.open("/dev/urandom", os.O_RDONLY), bytearray(32 << 20)
while True:
    os.readv(fd, [buffer])
    print(flush=True)
"""


def test_a_call_across_an_edge_is_in_both_windows(start_capture: StartCapture) -> None:
    """It computes in the kernel all the time, in calls as long as half a window."""
    command = [sys.executable, "-c", READS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as target:
        assert target.stdout is not None
        target.stdout.readline()
        samples = start_capture(target.pid, "0.1", ("--sample-count", "4")).samples()
        target.kill()
    for sample in samples:
        reader = thread(sample, target.pid)
        reading_ns = sum(call.on_cpu_ns or 0 for call in reader.syscalls if call.name == "readv")
        # The rest is of its line of output, and of what interrupts it.
        assert reading_ns >= 0.8 * time_of(reader).kernel_ns


def test_stopped_is_a_part(start_workload: StartWorkload, start_capture: StartCapture) -> None:
    workload = start_workload("calls")
    # A sleep of its own that began later would look as if it had stopped.
    workload.parked()
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    slept = workload.slept(workload.pid)
    os.kill(workload.pid, signal.SIGSTOP)
    # It is about to stop before it leaves its CPU.
    wait_until(lambda: workload.state(workload.pid) == "T" and workload.slept(workload.pid) > slept)
    time.sleep(0.05)
    sample = capture.end()
    os.kill(workload.pid, signal.SIGCONT)
    check(sample)
    its = time_of(thread(sample, workload.pid))
    assert its.stopped_ns + its.unaccounted_ns >= 50_000_000


def test_who_had_the_cpu(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("busy", CPU, 2 * SHORT_NS, 2, 0, within=undisturbed())
    sample, _ = measure(workload)
    first, second = (thread(sample, tid) for tid in workload.tids() if tid != workload.pid)
    for measured, other in ((first, second), (second, first)):
        assert other.tid in {taker.tid for taker in measured.cpu_taken_by}
        assert measured.preempted_ns


def test_who_had_the_lock(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("locks", 20, 10_000_000)
    sample, seen = measure(workload)
    (wait,) = thread(sample, workload.pid).lock_waits
    assert wait.tid == seen["holder"]
    # It may have been freed after it was found taken, and before the system call.
    assert seen["waits"] / 2 < wait.waits <= seen["waits"]
    # The waiter was woken when it was free, and then may have waited for a CPU.
    assert seen["held_ns"] / 2 < wait.ns <= seen["waited_ns"]
    assert not thread(sample, seen["holder"]).lock_waits


@pytest.mark.long
def test_without_accounting_there_are_the_tables_alone(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("busy", CPU, LASTS_NS, 1, 1)
    workload.send()
    sample = start_capture(workload.pid, "3", ("--no-accounting",)).sample()
    assert sample.threads
    for measured in sample.threads:
        assert (measured.time, measured.preempted_ns, measured.page_faults) == (None, None, None)
        assert not measured.cpu_taken_by
        assert all(call.count and call.on_cpu_ns is None for call in measured.syscalls)
        assert not any(call.histogram for call in measured.syscalls)
    assert not sample.verdict
