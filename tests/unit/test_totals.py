"""Several windows as one: what adds up, what is the most, and what is kept of many."""

from itertools import zip_longest

import pytest
from msgspec import Struct
from msgspec.structs import asdict, replace

from kernel_delay.analysis import totals
from kernel_delay.analysis.totals import MOST_TASKS, Totals, together
from kernel_delay.model import (
    CpuTaker,
    HardIrqStats,
    Intervals,
    LockWait,
    Lost,
    NewestSignal,
    OwnerActivity,
    PageFaults,
    Sample,
    Sleep,
    SoftIrqStats,
    SyscallStats,
    TaskTimes,
    Thread,
    Waker,
)
from tests.unit.samples import ACCOUNTED, EVERYTHING, bare_thread, timed_thread


def of(*samples: Sample) -> tuple[Thread, ...]:
    summed = Totals()
    for sample in samples:
        summed.add(sample)
    return summed.threads()


def test_one_window_is_what_it_is() -> None:
    assert of(ACCOUNTED) == ACCOUNTED.threads


def test_two_equal_windows_double_sums_and_keep_extremes() -> None:
    one, (two, _) = ACCOUNTED.threads[0], of(ACCOUNTED, ACCOUNTED)
    assert one.time is not None
    assert two.time is not None
    assert asdict(two.time) == {name: 2 * ns for name, ns in asdict(one.time).items()}
    for before, after in zip(one.syscalls, two.syscalls, strict=True):
        assert (after.count, after.total_ns) == (2 * before.count, 2 * before.total_ns)
        assert after.max_ns == before.max_ns
        assert after.histogram == tuple(2 * count for count in before.histogram)
        assert after.blocked_ns == 2 * (before.blocked_ns or 0)
    assert one.run is not None
    assert two.run == replace(
        one.run,
        count=2 * one.run.count,
        total_ns=2 * one.run.total_ns,
        histogram=tuple(2 * count for count in one.run.histogram),
    )
    assert [taker.ns for taker in two.cpu_taken_by] == [2 * t.ns for t in one.cpu_taken_by]
    assert [lock.waits for lock in two.lock_waits] == [2 * lock.waits for lock in one.lock_waits]
    assert two.cpu_taken_by_unknown_ns == 2 * one.cpu_taken_by_unknown_ns
    assert two.page_faults is not None
    assert two.page_faults.count == 24


def test_interrupts_are_added_by_handler_and_vector() -> None:
    one, two = EVERYTHING.threads[0], of(EVERYTHING, EVERYTHING)[0]
    assert [irq.count for irq in two.hard_irqs] == [2 * irq.count for irq in one.hard_irqs]
    assert [irq.total_ns for irq in two.soft_irqs] == [2 * irq.total_ns for irq in one.soft_irqs]
    assert [irq.max_ns for irq in two.soft_irqs] == [irq.max_ns for irq in one.soft_irqs]


def test_takers_beyond_the_bound_are_summed_as_others() -> None:
    first = tuple(CpuTaker(tid, "a", 1, 1000 + tid) for tid in range(1, MOST_TASKS + 1))
    later = tuple(CpuTaker(tid, "b", 1, tid) for tid in range(5001, 5011))
    one = replace(timed_thread(1, "x"), cpu_taken_by=first, cpu_taken_by_others_ns=7)
    both = together(one, replace(one, cpu_taken_by=later, cpu_taken_by_others_ns=5))
    assert len(both.cpu_taken_by) == MOST_TASKS
    reported_ns = sum(taker.ns for taker in both.cpu_taken_by) + both.cpu_taken_by_others_ns
    assert reported_ns == sum(taker.ns for taker in (*first, *later)) + 12


def test_sleeps_in_one_place_are_merged_with_all_wakers() -> None:
    def slept(waker: str, ns: int) -> Thread:
        wakers = (Waker("thread", 1, 1, waker, 1, ns),)
        sleep = Sleep("futex", "futex", ("futex_wait",), False, 2, ns, ns, wakers, ns // 10)
        return replace(bare_thread(1, "x"), sleeps=(sleep,))

    (sleep,) = together(together(slept("a", 10), slept("b", 50)), slept("a", 20)).sleeps
    assert (sleep.count, sleep.ns, sleep.max_ns, sleep.short_ns) == (6, 80, 50, 8)
    assert [(waker.comm, waker.count, waker.ns) for waker in sleep.wakers] == [
        ("b", 1, 50),
        ("a", 2, 30),
    ]


def test_reused_tid_is_another_thread_in_totals() -> None:
    first = replace(ACCOUNTED, threads=(timed_thread(1, "a"), timed_thread(2, "b")))
    second = replace(ACCOUNTED, threads=(timed_thread(1, "c"),))
    assert [(thread.tid, thread.name) for thread in of(first, second)] == [
        (1, "a"),
        (2, "b"),
        (1, "c"),
    ]


def test_totals_add_up_the_ended_threads_of_a_name() -> None:
    ended = replace(timed_thread(0, "worker"), threads=300, exited=True)
    assert together(ended, ended).threads == 600
    assert together(bare_thread(7, "x"), bare_thread(7, "x")).threads == 1


def test_threads_beyond_the_bound_are_one_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "MOST_THREADS", 3)
    monkeypatch.setattr(totals, "MOST_NAMES", 2)
    names = ("a", "b", "c", "d", "d", "e", "f", "g", "d", "a")
    windows = [
        replace(ACCOUNTED, threads=(timed_thread(tid, name, user=tid),))
        for tid, name in enumerate(names, 1)
    ]
    found = of(*windows, windows[0])
    assert [(thread.tid, thread.name, thread.threads) for thread in found] == [
        (1, "a", 1),
        (2, "b", 1),
        (3, "c", 1),
        (0, "d", 3),
        (0, "e", 1),
        (0, "[other names]", 3),
    ]
    assert sum(each.time.user_ns for each in found if each.time) == (55 + 1) * 1_000_000


def test_what_was_lost_adds_up() -> None:
    summed = Totals()
    for lost in (Lost(events=3, stacks=1), Lost(events=4, missed_events=2)):
        summed.add(replace(ACCOUNTED, lost=lost))
    assert summed.lost() == Lost(events=7, stacks=1, missed_events=2)


# What says which thread, call or place it is, or what it is called: of both windows the same.
NAMES = {"tid", "pid", "number", "vector", "address", "nice", "rt_priority", "threads"}


def raised(value: object, by: int, field: str = "") -> object:
    """The same with each count and time raised, each by another number."""
    if isinstance(value, Struct):
        fields = enumerate(value.__struct_fields__)
        changed = {name: raised(getattr(value, name), by + n, name) for n, name in fields}
        return type(value)(**changed)
    if isinstance(value, tuple):
        return tuple(raised(each, by + n, field) for n, each in enumerate(value))
    if isinstance(value, int) and not isinstance(value, bool) and field not in NAMES:
        return value + by
    return value


def summed(one: object, other: object, field: str = "") -> object:
    """What two windows of a thread come to, field by field."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, Struct):
        fields = one.__struct_fields__
        both = {name: summed(getattr(one, name), getattr(other, name), name) for name in fields}
        return type(one)(**both)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return tuple(summed(a, b, field) for a, b in zip_longest(one, other))
    if isinstance(one, bool) or not isinstance(one, int) or field in NAMES:
        return other
    assert isinstance(other, int)
    known = {"max_ns": max, "min_ns": min}.get(field)
    return known(one, other) if known else one + other


def whole_thread() -> Thread:
    """One that has something of everything."""
    times = Intervals(3, 90, 20, 50, (1, 2))
    call = SyscallStats(7, "poll", 4, 400, 200, (0, 3, 1), 11, 12, 13, 14, None, 15, 16, 17)
    waker = Waker("thread", 8, 8, "waker", 2, 30)
    return replace(
        timed_thread(5, "worker", user=9, kernel=8, ready=7, stopped=6, frozen=5, throttled=4),
        syscalls=(call,),
        long_poll=times,
        run=times,
        ready=times,
        stopped=times,
        hard_irqs=(HardIrqStats("eth0", 3, 30, 20),),
        soft_irqs=(SoftIrqStats(3, "net_rx", 4, 40, 25),),
        preempted_ns=21,
        cpu_taken_by=(CpuTaker(9, "hog", 2, 70, 9),),
        lock_waits=(LockWait(160, 6, "owner", 2, 60, OwnerActivity(50, 40, 5, 3, "read", "pipe")),),
        page_faults=PageFaults(3, 33, 44),
        sleeps=(Sleep("pipe", "read", ("pipe_read",), False, 5, 80, 40, (waker,), 9),),
        own_soft_irq_ns=22,
        signals=2,
        migrations=3,
        task_times=TaskTimes(100, 200, 5, 6, steal_ns=7),
        cpu_taken_by_others_ns=23,
        cpu_taken_by_unknown_ns=24,
        lock_waits_others_ns=25,
    )


def test_each_figure_of_two_windows_is_added_up() -> None:
    one = whole_thread()
    for by in (1, 1000):
        other = raised(one, by)
        assert isinstance(other, Thread)
        assert together(one, other) == summed(one, other)
        assert together(other, one) == summed(other, one)


def test_what_one_window_lacks_is_the_others() -> None:
    whole, bare = whole_thread(), bare_thread(5, "worker")
    for both in (together(whole, bare), together(bare, whole)):
        assert both == whole


def test_newest_signal_of_two_windows_is_the_laters() -> None:
    one, other, none = (
        replace(bare_thread(5, "worker"), newest_signal=newest)
        for newest in (NewestSignal(10, "timer"), NewestSignal(14, "kernel"), None)
    )
    assert together(one, other).newest_signal == other.newest_signal
    assert together(one, none).newest_signal == one.newest_signal
    # Which of several threads had one last is not known.
    ended = replace(one, tid=0)
    assert together(ended, ended).newest_signal is None
