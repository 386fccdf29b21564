"""Who had what a thread waited for: all of a state, and as a trace of the switches has it."""

import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kernel_delay.loader._records import lib
from kernel_delay.model import Sample, Thread
from tests.emulation import is_emulated
from tests.integration.capture.captures import StartCapture, thread
from tests.integration.capture.scheduler_clock import most_stolen_ns, stolen_ns
from tests.integration.capture.test_thread_times import check, running_ns, time_of
from tests.integration.capture.workload import StartWorkload, Workload
from tests.integration.oracles import StartBpftrace
from tests.needs import need_real_time
from tests.workload import LASTS_NS, wait_until

CPUS = sorted(os.sched_getaffinity(0))
CPU = CPUS[-1]

MS = 1_000_000

# Two switches, with our programs in them; an emulated CPU takes ten times as long.
SWITCHES_NS = 400_000 if is_emulated() else 40_000

# What of a thread's waits each task had, from the same tracepoints, by adding up slice
# after slice. Who was taken to run is right if the CPU's next switch is from that task, and is its
# first one since (kernel/sched/core.c:__schedule() counts each before the tracepoint): until then
# what a thread that moved on waited for is pending. prev_state is TASK_REPORT_MAX, 256, of a
# thread that is preempted.
REPLAY = """
tracepoint:sched:sched_wakeup /args->pid == TID/
{
    // A switch may come meanwhile on the other CPU: the wait begins with the last of these.
    @on = (uint64)args->target_cpu; @last = nsecs; @began = nsecs; @switches = 0; @waits = 1;
}
tracepoint:sched:sched_migrate_task /args->pid == TID && @waits/
{
    @pending[(uint64)args->orig_cpu] += nsecs - @last;
    @last = nsecs;
    @on = (uint64)args->dest_cpu;
}
tracepoint:sched:sched_switch
{
    if (@waits && (uint64)cpu == @on) {
        @pending[(uint64)cpu] += nsecs - @last;
        @last = nsecs;
        @switches += 1;
    }
    $prev = (struct task_struct *)curtask;
    $times = (uint64)$prev->nvcsw + (uint64)$prev->nivcsw;
    $seen = @left[(uint64)args->prev_pid];
    if (@running[(uint64)cpu] == (uint64)args->prev_pid && (!$seen || $times == $seen + 1)) {
        @took[(uint64)args->prev_pid] = sum(@pending[(uint64)cpu]);
    } else {
        @unsure = sum(@pending[(uint64)cpu]);
    }
    @left[(uint64)args->prev_pid] = $times;
    @pending[(uint64)cpu] = 0;
    @running[(uint64)cpu] = (uint64)args->next_pid;
    if (args->next_pid == TID) {
        if (@waits && @switches > WALKED) { @crowded = sum(nsecs - @began); }
        @waits = 0;
    }
    if (args->prev_pid == TID && (args->prev_state == 0 || args->prev_state == 256)) {
        @on = (uint64)cpu; @last = nsecs; @began = nsecs; @switches = 0; @waits = 1;
    }
}
"""

# So many switches of a wait are looked at when it ends (SLICES_WALKED, bpf/owner.h).
WALKED = 512


def replay(tid: int) -> str:
    return REPLAY.replace("TID", str(tid)).replace("WALKED", str(WALKED))


def taken(measured: Thread) -> dict[int, int]:
    return {taker.tid: taker.ns for taker in measured.cpu_taken_by}


def assert_agree(sample: Sample, measured: Thread, traced: dict[str, Any]) -> None:
    """Both give each task the same time, but for 1 % of the wait, and what either missed.

    A machine may keep a switch from all programs: of what had the CPU until the next one it is
    not known then who that was, and the sample counts it. Where bpftrace knows, that is no third of
    the wait, and beside it no more than a wait for each miss that is counted. Nor is it known of
    the first part of a wait in which there were more switches than are looked at. A wait whose
    begin bpftrace misses is none to it: the whole, which schedstat bears out, is longer then. Nor
    has an idle task a CPU that is waited for.
    """
    ours, theirs = taken(measured), {int(pid): ns for pid, ns in traced["@took"].items()}
    ready_ns = time_of(measured).ready_ns
    missed_ns = measured.cpu_taken_by_unknown_ns
    missed_ns += measured.cpu_taken_by_others_ns + time_of(measured).unaccounted_ns
    they_missed_ns = max(traced.get("@unsure", 0), ready_ns - sum(theirs.values()))
    they_missed_ns += theirs.get(0, 0)
    longest_ns = measured.ready.max_ns if measured.ready else 0
    counted_ns = sample.lost.missed_switches * longest_ns + traced.get("@crowded", 0)
    assert missed_ns <= ready_ns // 3 + 2 * they_missed_ns + counted_ns, (measured, traced)
    least_ns = max(200_000, ready_ns // 100) + missed_ns + they_missed_ns
    for tid in ours.keys() | theirs.keys():
        apart_ns = abs(ours.get(tid, 0) - theirs.get(tid, 0))
        assert apart_ns <= least_ns, f"{tid}: {ours} {theirs} {missed_ns}"


def mixes() -> list[list[tuple[int, int]]]:
    """How long tasks run and sleep, in µs: drawn once, and so the same in each run."""
    draw = random.Random(13)
    return [
        [
            (draw.choice([20, 200, 3000]), draw.choice([0, 300, 1000, 5000]))
            for _ in range(draw.randint(2, 8))
        ]
        for _ in range(3)
    ]


HOGS_AND_A_TICKER = [(1000, 0), (1000, 0), (1000, 0), (20, 1000)]


@pytest.mark.parametrize(
    "mix",
    [HOGS_AND_A_TICKER, *(pytest.param(each, marks=pytest.mark.long) for each in mixes())],
    ids=str,
)
def test_a_trace_of_the_switches_says_the_same(
    mix: list[tuple[int, int]],
    start_workload: StartWorkload,
    start_bpftrace: StartBpftrace,
    start_capture: StartCapture,
) -> None:
    length_ns = 500 * MS
    duties = [word for run, sleep in mix for word in (0, run * 1000, sleep * 1000)]
    others = start_workload("duty", CPU, length_ns, *duties)
    target = start_workload("spin", CPU, length_ns)
    # What it still waits for as the other looks is in no window.
    for workload in (target, others):
        workload.parked()
    bpftrace = start_bpftrace(replay(target.pid))
    capture = start_capture(target.pid)
    capture.wait_until_open()
    others.send()
    target.send()
    for workload in (target, others):
        workload.parked()
    sample = capture.end()
    traced = bpftrace.end()
    check(sample)
    measured = thread(sample, target.pid)
    assert sum(ns for ns in taken(measured).values()) > length_ns // 10
    assert_agree(sample, measured, traced)


def test_a_ticker_has_what_it_ran_and_no_more(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    duties = [word for run, sleep in HOGS_AND_A_TICKER for word in (0, run * 1000, sleep * 1000)]
    others = start_workload("duty", CPU, LASTS_NS, *duties)
    others.send()
    target = start_workload("spin", CPU, LASTS_NS)
    target.send()
    *hogs, ticker = others.ready["tids"]
    before, stolen_before_ns = others.schedstat(ticker), stolen_ns()
    capture = start_capture(target.pid)
    capture.wait_until_open()
    at_open = {hog: others.schedstat(hog) for hog in hogs}
    # On a machine with much else to do it takes a while until each had the CPU.
    wait_until(
        lambda: all(others.schedstat(hog).since(at_open[hog]).run_ns > 50 * MS for hog in hogs)
    )
    measured = thread(capture.end(), target.pid)
    ran = others.schedstat(ticker).since(before)
    found = taken(measured)
    # 20 us of each millisecond, or longer where the hypervisor takes its CPU.
    at_most_ns = ran.run_ns + ran.runs * SWITCHES_NS + most_stolen_ns(stolen_before_ns)
    assert found.get(ticker, 0) < at_most_ns
    # Where there is much else, one may be among those that have no entry of their own.
    unlisted_ns = measured.cpu_taken_by_others_ns
    assert min(found.get(hog, unlisted_ns) for hog in hogs) > found.get(ticker, 0)


@pytest.mark.long
def test_real_time_hog_is_named_in_windows_without_switches(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    if len(CPUS) < 2:
        pytest.skip("it would keep the capture from the only CPU")
    need_real_time()
    target = start_workload("spin", CPU, LASTS_NS)
    # Now and then the other one preempts it: a machine may keep a switch from all programs, and
    # then it is not known until the next one who has the CPU.
    hog = start_workload("duty", CPU, LASTS_NS, 50, 100_000, 0, 60, 100_000, 150 * MS)
    target.ask()
    hog.send()
    options = ("--sample-count", "30", "--sample-interval", "0.01")
    samples = start_capture(target.pid, "0.05", options).samples()
    missed = any(sample.lost.missed_events for sample in samples)
    starved = [thread(sample, target.pid) for sample in samples]
    ready_ns = sum(time_of(measured).ready_ns for measured in starved)
    for sample in samples:
        check(sample, missed)
    # A twentieth of the time is kept from it (sched_rt_runtime_us), and others may have that.
    assert ready_ns > 30 * 50 * MS // 2
    tid, _ = hog.ready["tids"]
    assert sum(taken(measured).get(tid, 0) for measured in starved) > 0.7 * ready_ns
    assert any(taken(measured) == {tid: time_of(measured).ready_ns} for measured in starved)
    takers = [taker for measured in starved for taker in measured.cpu_taken_by if taker.tid == tid]
    assert {(each.pid, each.policy, each.rt_priority) for each in takers} == {(hog.pid, "FIFO", 50)}


def test_tasks_that_take_turns_have_the_same_wait(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    """However many slices of a wait a task had, that was one wait."""
    hogs = start_workload("duty", CPU, LASTS_NS, 0, MS, 0, 0, MS, 0)
    target = start_workload("spin", CPU, LASTS_NS)
    # Seldom enough that others take turns in each of its waits, and often enough to have some.
    os.setpriority(os.PRIO_PROCESS, target.pid, 10)
    hogs.send()
    target.send()
    sample = start_capture(target.pid, "1").sample()
    measured = thread(sample, target.pid)
    of_hogs = [taker for taker in measured.cpu_taken_by if taker.tid in hogs.ready["tids"]]
    assert len(of_hogs) == 2
    # At both ends of the window there can be one more.
    most = 2 + (measured.ready.count if measured.ready else 0)
    assert all(0 < taker.waits <= most for taker in of_hogs)


# A run time in schedstat is as it was at a tick of the scheduler's: no more than 10 ms old.
HOGS_NS = 12 * MS


@pytest.mark.long
def test_a_wait_goes_on_at_another_cpu(
    start_workload: StartWorkload, start_bpftrace: StartBpftrace, start_capture: StartCapture
) -> None:
    if len(CPUS) < 2:
        pytest.skip("there is no other CPU")
    here, there = CPUS[-2:]
    hogs = {
        cpu: [start_workload("duty", cpu, LASTS_NS, 0, MS, 0) for _ in range(2)]
        for cpu in (here, there)
    }
    target = start_workload("spin", here, LASTS_NS)
    target.parked()
    bpftrace = start_bpftrace(replay(target.pid))
    capture = start_capture(target.pid)
    capture.wait_until_open()
    for hog in (*hogs[here], *hogs[there]):
        hog.send()
    target.send()
    for cpu in (here, there) * 10:
        os.sched_setaffinity(target.pid, {cpu})
        # What they run there, the target waits.
        wait_until(partial(have_run, hogs[cpu], ran_ns(hogs[cpu]) + HOGS_NS))
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: target.state(target.pid) == "T")
    sample = capture.end()
    traced = bpftrace.end()
    check(sample)
    measured = thread(sample, target.pid)
    assert_agree(sample, measured, traced)
    for of_cpu in hogs.values():
        assert {hog.ready["tids"][0] for hog in of_cpu} & taken(measured).keys()


def ran_ns(hogs: list[Workload]) -> int:
    return sum(hog.schedstat(hog.ready["tids"][0]).run_ns for hog in hogs)


def have_run(hogs: list[Workload], so_long_ns: int) -> bool:
    return ran_ns(hogs) >= so_long_ns


# So that what it reads is still there, whatever else the machine does: of the 2,048 slices
# that are kept of a CPU, those of a window are written over when others had it that often.
BEFORE_OTHERS = ("nice", "-n", "-10")
SLICES_LAST_S = 0.1


def read_after_s(sample: Sample) -> float:
    """How long after its window's end the sample was made."""
    window = sample.window
    passed = window.collected_time - window.start_time
    return passed.total_seconds() - window.duration_ns / 1e9


@pytest.mark.parametrize("interval", ["0", pytest.param("0.007", marks=pytest.mark.long)])
def test_waits_across_window_edges_are_charged_to_both_windows(
    interval: str, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    duties = [word for run, sleep in HOGS_AND_A_TICKER for word in (0, run * 1000, sleep * 1000)]
    start_workload("duty", CPU, LASTS_NS, *duties).send()
    target = start_workload("busy", CPU, LASTS_NS, 2, 2)
    target.send()
    options = ("--sample-count", "30", "--sample-interval", interval)
    samples = start_capture(target.pid, "0.011", options, BEFORE_OTHERS).samples()
    missed = any(sample.lost.missed_events for sample in samples)
    for sample in samples:
        check(sample, missed)
    # A window's last event can be read, and be counted as missed, with the next one's.
    if not missed:
        in_time = [sample for sample in samples if read_after_s(sample) < SLICES_LAST_S]
        assert in_time or is_emulated()
        threads = [each for sample in in_time for each in sample.threads]
        unknown_ns = sum(each.cpu_taken_by_unknown_ns for each in threads)
        # A machine may keep a switch from all programs, of other tasks too: then it is not known
        # until the CPU's next one who had that.
        assert unknown_ns <= sum(time_of(each).ready_ns for each in threads) // 4


def in_futex_ns(measured: Thread) -> int:
    return sum(call.blocked_ns or 0 for call in measured.syscalls if call.name == "futex")


def locks_ns(measured: Thread) -> int:
    return sum(wait.ns for wait in measured.lock_waits) + measured.lock_waits_others_ns


def wait_until_asleep(workload: Workload) -> None:
    wait_until(lambda: all(workload.state(tid) == "S" for tid in workload.tids()))


@pytest.mark.usefixtures("memory_of_others")
@pytest.mark.parametrize(
    "within",
    [
        pytest.param((), id="in the tool's PID namespace"),
        pytest.param(("unshare", "--pid", "--fork", "--kill-child"), id="in one of its own"),
    ],
)
def test_a_lock_that_is_held_all_the_time(
    within: tuple[str, ...], start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("locks", 1, LASTS_NS, within=within)
    workload.send()
    wait_until(lambda: len(workload.tids()) == 2)
    wait_until_asleep(workload)
    for sample in start_capture(workload.pid, "0.1", ("--sample-count", "3")).samples():
        check(sample)
        waiter = thread(sample, workload.pid)
        (wait,) = waiter.lock_waits
        assert wait.ns == time_of(waiter).blocked_ns == sample.window.duration_ns
        assert wait.tid == max(workload.tids())
        assert [finding.rule for finding in sample.verdict] == ["lock"], sample.verdict


def test_a_lock_that_is_freed_within_a_window(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("locks", 3, 150 * MS)
    # Six times as long as it takes: its threads may have to wait for a CPU.
    options = ("--sample-count", "30", "--sample-interval", "0")
    capture = start_capture(workload.pid, "0.1", options)
    capture.wait_until_open()
    answer = workload.ask()
    samples: list[Sample] = capture.samples()
    missed = any(sample.lost.missed_events for sample in samples)
    for sample in samples:
        check(sample, missed)
    waiters = [thread(sample, workload.pid) for sample in samples]
    found_ns = sum(locks_ns(waiter) for waiter in waiters)
    first, last = samples[0].window, samples[-1].window
    between_ns = last.stop_ns - first.start_ns - sum(each.window.duration_ns for each in samples)
    if not missed:
        assert answer["held_ns"] * 0.9 - between_ns < found_ns <= answer["waited_ns"]


@pytest.mark.parametrize("crowd", [0, 1_000_000])
def test_many_locks_of_one_owner_are_summed_up(
    crowd: int, slow_machine: bool, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    if crowd and slow_machine:
        pytest.skip("so many threads take minutes on so slow a machine")
    count = 300
    pinned = ("taskset", "-c", str(CPU))
    workload = start_workload("many_locks", count, MS, within=("nice", *pinned))
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    if crowd:
        # So many tasks have the waiter's CPU, each once and shortly.
        start_workload("crowd", 0, crowd, within=pinned).send()
    answer = workload.ask()
    wait_until_asleep(workload)
    sample = capture.end()
    check(sample)
    waiter = thread(sample, workload.pid)
    assert not sample.lost.dropped_records
    # The tasks that had the CPU leave room for so many, and one more sums up the rest.
    assert lib.OWNERS_PER_LIST - lib.TASKS_PER_LIST < len(waiter.lock_waits) < count
    assert {wait.tid for wait in waiter.lock_waits} == {answer["owner"]}
    assert sum(wait.address == 0 for wait in waiter.lock_waits) == 1
    its = time_of(waiter)
    # Of that it may have waited for a CPU, in which time others of the mutexes are freed.
    known_ns = answer["waited_ns"] - its.ready_ns - running_ns(waiter) - its.unaccounted_ns
    # A barrier may have cost one sleep in futex(2) before.
    assert 0.9 * known_ns <= locks_ns(waiter) <= in_futex_ns(waiter)


@pytest.mark.parametrize("kind", ["arena", "glib", "shared"])
def test_what_looks_like_a_mutex_has_no_owner(
    start_workload: StartWorkload, start_capture: StartCapture, kind: str
) -> None:
    # The first wait has begun when the programs come, the second has not.
    wait_ns = 3000 * MS
    workload = start_workload("no_mutex", kind, wait_ns)
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    assert workload.line() == "{}"
    workload.ask()
    sample = capture.end()
    check(sample)
    waiter = thread(sample, workload.pid)
    # It waited, and what of that was for a CPU, or was missed, is no matter here.
    assert in_futex_ns(waiter) > wait_ns // 2
    assert not waiter.lock_waits


@pytest.mark.long
def test_kernel_delay_is_marked_as_itself_among_cpu_takers(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    workload.ask()
    capture = start_capture(
        workload.pid, "0.3", ("--sample-count", "3"), ("taskset", "-c", str(CPU))
    )
    samples = capture.samples()
    # It accounts for one window in the next.
    found = [taker for sample in samples for taker in thread(sample, workload.pid).cpu_taken_by]
    itself = [taker for taker in found if taker.is_tool]
    assert itself
    assert {(taker.comm, taker.pid) for taker in itself} == {("kernel-delay", capture.pid)}
    assert not any(taker.is_tool for taker in found if taker.pid != capture.pid)


@pytest.mark.parametrize("options", [(), ("-s",), ("--timeline",)])
def test_threads_of_kernel_delay_are_called_so(
    options: tuple[str, ...], start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    capture = start_capture(start_workload("spin", CPU, MS).pid, "60", options)
    capture.wait_until_open()
    tasks = list(Path(f"/proc/{capture.pid}/task").iterdir())
    assert {(task / "comm").read_text() for task in tasks} == {"kernel-delay\n"}
    assert (len(tasks) > 1) == bool(options)
    capture.end()
