"""Where a thread's time went, by name, and which threads come first: each figure a number apart."""

from msgspec import structs
from msgspec.structs import replace

from kernel_delay.analysis.states import (
    PART_NAMES,
    STATE_OF,
    STATES,
    by_name,
    lost_ns,
    slept_throughout,
    states,
    time_parts,
    worst_first,
)
from kernel_delay.analysis.verdict.user_work import USER_WORK
from kernel_delay.model import (
    Finding,
    HardIrqStats,
    Intervals,
    LockWait,
    PageFaults,
    Sleep,
    SoftIrqStats,
    Thread,
    ThreadTime,
)
from tests.unit.samples import bare_sample, bare_thread, timed_thread

# No two sums of these are the same.
TIME = ThreadTime(
    user_ns=1 << 0,
    kernel_ns=1 << 1,
    hard_irq_ns=1 << 2,
    soft_irq_ns=1 << 3,
    ready_ns=1 << 4,
    blocked_ns=1 << 5,
    stopped_ns=1 << 6,
    absent_ns=1 << 7,
    unaccounted_ns=1 << 8,
    guest_ns=1 << 9,
    throttled_ns=1 << 10,
    frozen_ns=1 << 11,
    tool_ns=1 << 12,
)
KEPT_NS = (1 << 1) + (1 << 2) + (1 << 3) + (1 << 4) + (1 << 10) + (1 << 11) + (1 << 12)


def thread(tid: int = 1, name: str = "a", **changes: object) -> Thread:
    return replace(bare_thread(tid, name), time=TIME, **changes)


def finding(tid: int, rule: str = "wait_disk", *, remark: bool = False, **ns: int) -> Finding:
    return Finding(rule, "kernel", 0.5, tid, "It waited.", remark, ns)


def test_each_part_of_the_time_has_its_name() -> None:
    parts = dict(time_parts(thread(), TIME))
    assert parts == {
        "user": 1,
        "kernel, syscalls": 2,
        "kernel, page faults": 0,
        "guest": 512,
        "kernel-delay": 4096,
        "hard irq": 4,
        "soft irq": 8,
        "ready, woken": 16,
        "ready, preempted": 0,
        "blocked": 32,
        "stopped": 64,
        "throttled": 1024,
        "frozen": 2048,
        "absent": 128,
        "unaccounted": 256,
    }
    assert tuple(parts) == PART_NAMES
    split = thread(preempted_ns=5, page_faults=PageFaults(3, 1, 7))
    assert dict(time_parts(split, TIME)) == parts | {
        "kernel, syscalls": 1,
        "kernel, page faults": 1,
        "ready, woken": 11,
        "ready, preempted": 5,
    }
    worker = dict(time_parts(thread(kernel_worker=True), TIME))
    assert worker.pop("kernel, worker") == 2
    assert worker.keys() == parts.keys() - {"kernel, syscalls"}


def test_each_state_is_the_sum_of_its_parts() -> None:
    sums = dict.fromkeys(STATES, 0)
    for name, ns in time_parts(thread(preempted_ns=5, page_faults=PageFaults(3, 1, 7)), TIME):
        sums[STATE_OF[name]] += ns
    assert states(TIME) == sums
    assert tuple(states(TIME)) == STATES
    assert sum(sums.values()) == sum(structs.astuple(TIME))


def test_what_others_had_of_the_time_is_lost() -> None:
    assert lost_ns(thread()) == KEPT_NS + (1 << 6)
    waits = tuple(LockWait(0x10, 2, "b", 1, ns) for ns in (1 << 13, 1 << 14))
    locked = thread(lock_waits=waits, lock_waits_others_ns=1 << 15)
    assert lost_ns(locked) == KEPT_NS + (1 << 6) + (1 << 13) + (1 << 14) + (1 << 15)


def test_without_accounting_what_was_counted_is_lost() -> None:
    counted = replace(
        bare_thread(1, "a"),
        hard_irqs=(HardIrqStats("eth0", 1, 1, 1), HardIrqStats("eth1", 1, 2, 2)),
        soft_irqs=(SoftIrqStats(3, "net_rx", 1, 4, 4),),
        run=Intervals(1, 8, 8, 8),
        ready=Intervals(1, 16, 16, 16),
        stopped=Intervals(1, 32, 32, 32),
    )
    assert lost_ns(counted) == 1 + 2 + 4 + 16 + 32
    assert lost_ns(replace(counted, ready=None, stopped=None)) == 1 + 2 + 4


def order(*threads: Thread, verdict: tuple[Finding, ...] = ()) -> list[int]:
    return [each.tid for each in worst_first(bare_sample(*threads, verdict=verdict))]


LITTLE, MUCH = timed_thread(5, "little", ready=10), timed_thread(6, "much", ready=100)


def test_who_lost_most_comes_first() -> None:
    assert order(LITTLE, MUCH) == [6, 5]
    same = [timed_thread(tid, name, ready=10) for tid, name in ((9, "b"), (8, "c"), (7, "b"))]
    assert order(*same, LITTLE, MUCH) == [6, 7, 9, 8, 5]
    assert [each.tid for each in by_name(bare_sample(*same, MUCH))] == [7, 9, 8, 6]


def test_what_a_finding_says_was_lost_counts() -> None:
    sleeper = timed_thread(1, "sleeper")
    found = finding(1, lost_ns=50_000_000)
    assert order(LITTLE, MUCH, sleeper, verdict=(found,)) == [6, 1, 5]
    more = finding(1, "wait_pipe", lost_ns=200_000_000)
    assert order(LITTLE, MUCH, sleeper, verdict=(more, found)) == [1, 6, 5]
    assert order(LITTLE, MUCH, sleeper, verdict=(found, more)) == [1, 6, 5]
    # A finding says nothing of a sum of several threads, and a smaller loss hides no larger one.
    several = replace(sleeper, threads=2)
    assert order(LITTLE, MUCH, several, verdict=(more,)) == [6, 5, 1]
    assert order(LITTLE, MUCH, verdict=(finding(6, lost_ns=1),)) == [6, 5]
    assert order(LITTLE, MUCH, sleeper, verdict=(finding(1),)) == [6, 5, 1]


def test_a_busy_thread_comes_first_where_nothing_was_found() -> None:
    busy = timed_thread(1, "busy", user=400)
    own = finding(1, USER_WORK.name, remark=True, lost_ns=400_000_000)
    assert order(LITTLE, MUCH, busy, verdict=(own,)) == [1, 6, 5]
    assert order(LITTLE, MUCH, busy, verdict=(finding(5, lost_ns=1), own)) == [6, 5, 1]
    other = finding(1, "wait_poll", remark=True, lost_ns=400_000_000)
    assert order(LITTLE, MUCH, busy, verdict=(other,)) == [6, 5, 1]


def slept(*threads: Thread, verdict: tuple[Finding, ...] = ()) -> set[int]:
    return set(slept_throughout(bare_sample(*threads, verdict=verdict)))


def test_who_did_nothing_slept_throughout() -> None:
    sleeper = timed_thread(1, "sleeper")
    awake = timed_thread(2, "awake", tool=1)
    assert slept(sleeper, awake, bare_thread(3, "unknown")) == {1}
    assert slept(replace(sleeper, threads=2)) == set()
    absent = timed_thread(4, "absent", absent=500)
    assert slept(absent) == set()
    wait = LockWait(0x10, 2, "b", 1, 1)
    assert slept(replace(sleeper, lock_waits=(wait,))) == set()
    assert slept(replace(sleeper, lock_waits_others_ns=1)) == set()
    for uninterruptible, found in ((False, {1}), (True, set[int]())):
        sleep = Sleep("disk", "read", (), uninterruptible, 1, 1, 1)
        assert slept(replace(sleeper, sleeps=(sleep,))) == found


def test_whom_the_verdict_names_has_a_row() -> None:
    first, second, third = (timed_thread(tid, f"t{tid}") for tid in (1, 2, 3))
    found = (finding(1), finding(2))
    remarks = (finding(3, "wait_poll", remark=True), finding(2, "wait_poll", remark=True))
    assert slept(first, second, third, verdict=(*found, *remarks)) == {3}
    # Of remarks the first is the first line.
    assert slept(first, second, third, verdict=remarks) == {1, 2}
    assert slept(first, second, third) == {1, 2, 3}
