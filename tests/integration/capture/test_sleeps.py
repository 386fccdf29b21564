"""Where a thread slept and who woke it: waits of known kinds, and as bpftrace has them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from kernel_delay.analysis.sleep_reasons import sleep_reason
from kernel_delay.loader.features import read_kernel_features
from kernel_delay.model import Sample, Sleep, Thread, Waker
from tests.emulation import is_emulated
from tests.integration.capture.captures import Measure, StartCapture, thread
from tests.integration.capture.workload import StartWorkload
from tests.integration.oracles import StartBpftrace, StartPerfStat
from tests.needs import is_preempt_rt
from tests.workload import LASTS_NS, wait_until

MS = 1_000_000

# Of the waits, and of their time: this machine keeps programs from a few events.
MOST = 0.99

# How many, what they are by the kernel's stack, and which call they are in. Each child is
# a waker of its own, and there is not room for hundreds.
KINDS = [
    ("clock", 200, "clock", {"nanosleep", "clock_nanosleep"}),
    ("pipe", 200, "pipe", {"read"}),
    ("flock", 200, "file_lock", {"flock"}),
    ("fcntl", 200, "file_lock", {"fcntl"}),
    ("futex", 200, "futex", {"futex"}),
    ("child", 40, "child", {"wait4"}),
    ("vfork", 40, "vfork", {"vfork", "clone", "clone3"}),
]


def asleep(measured: Thread) -> int:
    """How long it was blocked: its sleeps, all together, say so too."""
    assert measured.time is not None
    assert sum(sleep.ns for sleep in measured.sleeps) == measured.time.blocked_ns
    return measured.time.blocked_ns


def assert_all_known(measured: Thread, sample: Sample) -> int:
    """But for what is too short, or was missed, it is known where it slept. Returns how long."""
    blocked_ns = asleep(measured)
    unknown = of_reason(measured, "short") + of_reason(measured, "unknown")
    most_ns = (1 - MOST) * blocked_ns + missed_ns(measured, sample)
    assert sum(sleep.ns for sleep in unknown) <= most_ns
    return blocked_ns


def missed_ns(measured: Thread, sample: Sample) -> int:
    """Where one slept that was missed is not known: of how much that may be so."""
    longest_ns = max((sleep.max_ns for sleep in measured.sleeps), default=0)
    return sample.lost.missed_switches * longest_ns


def of_reason(measured: Thread, reason: str) -> list[Sleep]:
    return [sleep for sleep in measured.sleeps if sleep.reason == reason]


def wakers_of(sleeps: list[Sleep]) -> list[Waker]:
    """Who ended them; not the test, whose line the workload waits for before it acts."""
    return [
        waker
        for sleep in sleeps
        for waker in sleep.wakers
        if waker.tid != threading.get_native_id()
    ]


def is_timer(waker: Waker) -> bool:
    """With PREEMPT_RT a soft IRQ runs the timers of most threads (kernel/time/hrtimer.c, 6.1)."""
    kinds = ("hard_irq", "soft_irq") if is_preempt_rt() else ("hard_irq",)
    return waker.kind in kinds and (waker.tid, waker.comm) == (0, "")


@pytest.mark.parametrize(
    ("kind", "count", "reason", "calls"), KINDS, ids=[kind for kind, *_ in KINDS]
)
def test_waits_are_reported_with_their_reason_and_waker(
    kind: str,
    count: int,
    reason: str,
    calls: set[str],
    start_workload: StartWorkload,
    measure: Measure,
) -> None:
    length_ns = 2 * MS
    workload = start_workload("waits", kind, count, length_ns)
    slept = workload.slept(workload.pid)
    sample, seen = measure(workload)
    slept = workload.slept(workload.pid) - slept
    measured = thread(sample, workload.pid)
    assert_all_known(measured, sample)
    # Those that missed switches hid are reported as missed.
    apart = 2 + count // 50 + sample.lost.missed_switches
    assert abs(sum(sleep.count for sleep in measured.sleeps) - slept) <= apart
    found = of_reason(measured, reason)
    # Of the first sleep the entry may not have been seen.
    unknown = set() if read_kernel_features().knows_earlier_calls else {None}
    assert {sleep.syscall for sleep in found} <= calls | unknown
    wakers = wakers_of(found)
    # On a busy machine it may have gone on before it is off its CPU.
    assert count // 2 <= sum(waker.count for waker in wakers) <= 2 * count
    assert sum(waker.ns for waker in wakers) <= seen["total_ns"]
    assert max(sleep.max_ns for sleep in found) >= length_ns // 2
    if kind == "clock":
        assert all(map(is_timer, wakers))
        return
    assert {waker.kind for waker in wakers} == {"thread"}
    if workload.ready["waker"]:
        (waker,) = wakers
        assert (waker.tid, waker.pid) == (workload.ready["waker"],) * 2
    else:
        assert all(waker.comm == "waits" for waker in wakers)


def test_vfork_waits_uninterruptibly_and_flock_interruptibly(
    start_workload: StartWorkload, measure: Measure
) -> None:
    """vfork waits in state D, flock in S; see wait_for_vfork_done() and flock_lock_inode_wait()."""
    for kind, uninterruptible in (("vfork", True), ("flock", False)):
        workload = start_workload("waits", kind, 5, 2 * MS)
        sample, _ = measure(workload)
        reason = {"vfork": "vfork", "flock": "file_lock"}[kind]
        found = of_reason(thread(sample, workload.pid), reason)
        assert {sleep.uninterruptible for sleep in found} == {uninterruptible}


def test_of_a_crowd_of_wakers_the_sum_is_kept(
    start_workload: StartWorkload, measure: Measure
) -> None:
    workload = start_workload("waits", "child", 300, 1 * MS)
    sample, _ = measure(workload)
    measured = thread(sample, workload.pid)
    assert_all_known(measured, sample)
    found = of_reason(measured, "child")
    kinds = Counter(waker.kind for sleep in found for waker in sleep.wakers)
    assert kinds["thread"] > 20
    assert kinds["unknown"] == 1
    assert kinds.total() == kinds["thread"] + 1


# Sleeps by who wakes the thread, from tracepoints of the scheduler: until it is to be woken, or,
# on another CPU than the waker's, until that one has been interrupted to do so. And where it goes
# to sleep, once in 64: to look takes so long that our programs, which come behind, are late by
# as much. bpftrace tells no interrupt from what it interrupted.
OFF_WAKE_TIME = """
tracepoint:sched:sched_switch /args->prev_pid == TID && (args->prev_state & 3)/
{
    @from = nsecs;
    @sleeps++;
    if (@sleeps % 64 == 0) { @where[kstack(20)] = count(); }
}
tracepoint:sched:sched_waking /args->pid == TID && @from/
{
    @waker = tid;
    @on = cpu;
    @at = nsecs;
}
tracepoint:sched:sched_wakeup /args->pid == TID && @from/
{
    @count[@waker] = count();
    @ns[@waker] = sum((cpu == @on ? @at : nsecs) - @from);
    @from = 0;
}
"""


def reasons(stacks: dict[str, int]) -> set[str]:
    """What sleeps are for, by the stacks that bpftrace prints, a function a line."""
    names = [[line.strip().partition("+")[0] for line in stack.splitlines()] for stack in stacks]
    return {sleep_reason([name for name in each if name]) for each in names}


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        pytest.param("pipe", 10_200, marks=pytest.mark.long),
        pytest.param("away", 3_400, marks=pytest.mark.long),
        ("futex", 3_400),
    ],
)
def test_bpftrace_says_the_same_of_ten_thousand_waits(
    kind: str,
    count: int,
    start_workload: StartWorkload,
    start_bpftrace: StartBpftrace,
    start_capture: StartCapture,
) -> None:
    workload = start_workload("waits", kind, count, 300_000)
    workload.parked()
    slept = workload.slept(workload.pid)
    bpftrace = start_bpftrace(OFF_WAKE_TIME.replace("TID", str(workload.pid)))
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    workload.ask()
    workload.parked()
    sample = capture.end()
    traced = bpftrace.end()
    slept = workload.slept(workload.pid) - slept
    measured = thread(sample, workload.pid)
    asleep(measured)
    waker = workload.ready["waker"]
    theirs_count, theirs_ns = traced["@count"][str(waker)], traced["@ns"][str(waker)]
    ours = [each for each in wakers_of(list(measured.sleeps)) if each.tid == waker]
    ours_count, ours_ns = (sum(of) for of in zip(*((w.count, w.ns) for w in ours), strict=True))
    assert reasons(traced["@where"]) == {"futex" if kind == "futex" else "pipe"}
    # The kernel's own count of its sleeps: bpftrace misses some, and does not say so.
    assert slept > MOST * count
    missed = sample.lost.missed_switches, slept - sum(traced["@count"].values())
    # Those too short to look at have no waker: many where the pipe's mutex is one of PREEMPT_RT.
    too_short = of_reason(measured, "short") if is_preempt_rt() else []
    short = sum(sleep.count for sleep in too_short)
    assert abs(ours_count - theirs_count) <= (1 - MOST) * theirs_count + max(missed) + short
    longest_ns = max(sleep.max_ns for sleep in measured.sleeps)
    # One reads the clock after the other: an emulated CPU takes microseconds in between.
    apart = (1 - MOST) * (3 if is_emulated() else 1)
    assert abs(ours_ns - theirs_ns) <= apart * theirs_ns + max(missed) * longest_ns


def test_an_interrupt_is_not_the_task_that_it_interrupts(
    start_workload: StartWorkload, measure: Measure
) -> None:
    """A busy task on the same CPU, in its own code, is there whenever the timer is."""
    cpu = 0
    spin = start_workload("spin", cpu, LASTS_NS, within=("taskset", "-c", str(cpu)))
    spin.send()
    workload = start_workload("waits", "clock", 50, 2 * MS, within=("taskset", "-c", str(cpu)))
    sample, _ = measure(workload)
    found = of_reason(thread(sample, workload.pid), "clock")
    wakers = [waker for sleep in found for waker in sleep.wakers]
    assert wakers
    assert all(map(is_timer, wakers))


def test_waker_of_the_newest_wait_is_known(start_workload: StartWorkload, measure: Measure) -> None:
    workload = start_workload("waits", "pipe", 5, 40 * MS)
    sample, _ = measure(workload)
    wakers = [waker for sleep in thread(sample, workload.pid).sleeps for waker in sleep.wakers]
    waker = workload.ready["waker"]
    assert waker in {each.tid for each in wakers}
    # Of a wait whose begin or end was missed, the newest or the first one, no waker is known.
    if not sample.lost.missed_switches:
        assert {each.tid for each in wakers} > {waker}
        assert [each.tid for each in wakers if each.woke_last] == [waker]


def test_short_waits_are_known_by_a_few_of_them(
    start_workload: StartWorkload, measure: Measure
) -> None:
    workload = start_workload("waits", "clock", 5_000, 20_000)
    sample, _ = measure(workload)
    measured = thread(sample, workload.pid)
    blocked_ns = assert_all_known(measured, sample)
    found = of_reason(measured, "clock")
    assert sum(sleep.short_ns for sleep in found) > 0
    # Fewer looks than one in 200 us of its time asleep, and one for each that took so long.
    looks = sum(sleep.count for sleep in found)
    assert 1 <= looks <= blocked_ns // 200_000 + 1
    assert looks + sum(sleep.count for sleep in of_reason(measured, "short")) <= 5_010


def test_thread_asleep_throughout_is_known_by_its_stack(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("waits", "pipe", 1, 1)
    workload.parked()
    options = ("--sample-count", "3")
    samples = start_capture(workload.pid, "0.1", options).samples()
    for sample in samples:
        (found,) = thread(sample, workload.pid).sleeps
        call = None if "earlier_calls" in sample.unseen else "read"
        assert (found.reason, found.syscall) == ("pipe", call)
        assert found.ns == found.max_ns == sample.window.duration_ns
        assert found.wakers == ()


def test_a_wait_across_an_edge_is_in_both_windows(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("waits", "pipe", 20, 40 * MS)
    capture = start_capture(workload.pid, "0.1", ("--sample-count", "6"))
    capture.wait_until_open()
    workload.ask()
    for sample in capture.samples():
        measured = thread(sample, workload.pid)
        blocked_ns = assert_all_known(measured, sample)
        of_pipe_ns = sum(sleep.ns for sleep in of_reason(measured, "pipe"))
        assert of_pipe_ns >= MOST * blocked_ns - missed_ns(measured, sample)


def test_interrupts_of_the_kernels_own_are_counted(
    start_workload: StartWorkload, start_perf_stat: StartPerfStat, start_capture: StartCapture
) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the tracepoints of irq_vectors are x86-64's")
    workload = start_workload("spin", 0, 1000 * MS)
    perf = start_perf_stat(workload.pid, "irq_vectors:local_timer_exit")
    capture = start_capture(workload.pid)
    capture.wait_until_open()
    workload.ask()
    workload.parked()
    sample = capture.end()
    measured = thread(sample, workload.pid)
    (counted,) = perf.end().values()
    ours = sum(irq.count for irq in measured.hard_irqs if irq.name == "local timer")
    assert ours > 0
    assert abs(ours - counted) <= max(2, counted // 50) + sample.lost.missed_interrupts


READS = """
import os, signal
signal.signal(signal.SIGUSR1, lambda number, frame: None)
pipe, other = os.pipe()
print(flush=True)
os.read(pipe, 1)
"""


def test_sender_of_a_signal_is_no_waker(start_capture: StartCapture) -> None:
    count = 50
    with subprocess.Popen([sys.executable, "-c", READS], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        capture = start_capture(reader.pid)
        capture.wait_until_open()
        stat = Path(f"/proc/{reader.pid}/stat")
        for _ in range(count):
            wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S")
            time.sleep(0.005)
            os.kill(reader.pid, signal.SIGUSR1)
        sample = capture.end()
        reader.kill()
    slept = of_reason(thread(sample, reader.pid), "pipe")
    assert sum(sleep.ns for sleep in slept) > count * 4 * MS
    assert sum(sleep.count for sleep in slept) > 1
    assert not any(waker.tid for sleep in slept for waker in sleep.wakers)
