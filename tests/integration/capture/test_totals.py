"""All time of each thread since it was watched: it sums up, and others know of it as much."""

import os
import time
from typing import NamedTuple

import pytest

from kernel_delay.capture.plan import RoundPlan
from kernel_delay.capture.rounds.watch import Watch
from kernel_delay.host.target import find_target
from kernel_delay.metrics.ledger import Ledger, ThreadClasses
from kernel_delay.model import ThreadTime, ThreadTotals
from tests.emulation import is_emulated, scaled
from tests.integration.capture.scheduler_clock import most_stolen_ns, stolen_ns
from tests.integration.capture.workload import StartWorkload, known_syscall
from tests.workload import wait_until

NS_PER_MS = 1_000_000
CPU = max(os.sched_getaffinity(0))
PLAN = RoundPlan(threshold_ns=1000 * NS_PER_MS)
PARTS = tuple(field for field in ThreadTime.__struct_fields__ if field != "absent_ns")


class Read(NamedTuple):
    """What all threads told between two moments."""

    before_ns: int
    threads: dict[int, ThreadTotals]
    reported: dict[int, ThreadTotals | None]
    after_ns: int


def read(watch: Watch) -> Read:
    """What all of them tell, once there is none that goes on while it is read."""
    reads: list[Read] = []

    def is_whole() -> bool:
        before_ns = time.monotonic_ns()
        reported = watch.thread_totals.living()
        after_ns = time.monotonic_ns()
        whole = {each.tid: each for each in reported.values() if each is not None}
        reads.append(Read(before_ns, whole, reported, after_ns))
        return len(whole) == len(reported)

    wait_until(is_whole)
    return reads[-1]


def parts_ns(totals: ThreadTotals) -> dict[str, int]:
    return {part: getattr(totals.time, part) for part in PARTS}


def life_ns(totals: ThreadTotals) -> int:
    return sum(parts_ns(totals).values())


def on_cpu_ns(totals: ThreadTotals) -> int:
    its = totals.time
    return its.user_ns + its.kernel_ns + its.hard_irq_ns + its.soft_irq_ns


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("busy", (CPU, 300 * NS_PER_MS, 2, 2)),
        ("polls", ("epoll_wait", 20, 2 * NS_PER_MS)),
        ("locks", (20, 2 * NS_PER_MS)),
        ("crowd", (20, 100)),
    ],
)
def test_totals_of_a_thread_grow_by_the_elapsed_time(
    name: str, arguments: tuple[object, ...], start_workload: StartWorkload
) -> None:
    """In rounds and out of them, while it runs and while it sleeps, to the nanosecond."""
    workload = start_workload(name, *arguments)
    with Watch(find_target(workload.pid), PLAN, totals=True) as watch:
        first = read(watch)
        workload.ask()
        last = read(watch)

    both = first.threads.keys() & last.threads.keys()
    assert workload.pid in both
    for tid in both:
        more_ns = life_ns(last.threads[tid]) - life_ns(first.threads[tid])
        assert last.before_ns - first.after_ns <= more_ns <= last.after_ns - first.before_ns
        assert min(parts_ns(last.threads[tid]).values()) >= 0


@pytest.mark.skipif(is_emulated(), reason="switches take longer there than what is compared")
def test_the_time_on_cpus_is_what_the_scheduler_has(start_workload: StartWorkload) -> None:
    workload = start_workload("busy", CPU, 500 * NS_PER_MS, 2, 0)
    stolen_before_ns = stolen_ns()
    with Watch(find_target(workload.pid), PLAN, totals=True) as watch:
        scheduled = workload.parked()
        first = read(watch)
        workload.ask()
        now = workload.parked()
        last = read(watch)

    for tid, before in scheduled.items():
        run_ns = now[tid].since(before).run_ns
        more_ns = on_cpu_ns(last.threads[tid]) - on_cpu_ns(first.threads[tid])
        unknown_ns = last.threads[tid].time.unaccounted_ns
        # A twentieth: interrupts may be none of the scheduler's.
        slack_ns = run_ns // 20 + 2 * NS_PER_MS + unknown_ns + most_stolen_ns(stolen_before_ns)
        assert abs(more_ns - run_ns) <= slack_ns, (tid, more_ns, run_ns)


def test_user_time_after_a_long_sleep_is_user_time(start_workload: StartWorkload) -> None:
    """In a call that was never seen to begin, for longer than it runs then."""
    workload = start_workload("calls", f"{known_syscall('getppid')}={scaled(50_000)}")
    with Watch(find_target(workload.pid), PLAN, totals=True) as watch:
        time.sleep(2)
        first = read(watch)
        workload.ask()
        workload.parked()
        last = read(watch)

    before, after = first.threads[workload.pid].time, last.threads[workload.pid].time
    user_ns, kernel_ns = after.user_ns - before.user_ns, after.kernel_ns - before.kernel_ns
    # Each call is short, and the programs of the watch are on both sides of it.
    assert user_ns > kernel_ns / 10


def test_calls_are_counted_once_whatever_round_they_are_in(start_workload: StartWorkload) -> None:
    count = scaled(100_000)
    workload = start_workload("calls", f"{known_syscall('getppid')}={count}")
    with Watch(find_target(workload.pid), PLAN, totals=True) as watch:
        workload.ask()
        (call,) = (each for each in watch.thread_totals.calls() if each.name == "getppid")
        missed = watch.losses().missed_events

    assert count - missed <= call.count <= count
    assert call.total_ns > 0


def test_threads_that_end_between_reads_are_in_the_sums(start_workload: StartWorkload) -> None:
    """Each tells at its end: all of the time of all threads is somewhere, or is said to be lost."""
    ended = 400
    workload = start_workload("crowd", 4, ended)
    ledger = Ledger(ThreadClasses(is_open_vswitch=False))
    reported: list[ThreadTotals] = []
    with Watch(find_target(workload.pid), PLAN, totals=True) as watch:
        first = read(watch).reported
        ledger.add_living(workload.pid, first)
        workload.ask()
        wait_until(lambda: len(workload.tids()) <= 5)

        def all_reported() -> bool:
            reported.extend(watch.thread_totals.ended())
            return len(reported) + watch.losses().missed_ends + lost_ends(watch) >= ended

        wait_until(all_reported)
        last = read(watch).reported
    before_ns = sum(sum(figures.state_ns.values()) for figures in ledger.classes.values())
    ledger.add_living(workload.pid, last)
    ledger.add_ended(workload.pid, reported)

    after_ns = sum(sum(figures.state_ns.values()) for figures in ledger.classes.values())
    stayed = sum(
        life_ns(now) - life_ns(then)
        for identity, then in first.items()
        if then is not None and (now := last.get(identity)) is not None
    )
    gone = sum(life_ns(each) for each in reported if each.identity not in first)
    # Whose end was missed may be there still.
    ends = first.keys() | {each.identity for each in reported}
    stayed += sum(life_ns(now) for identity, now in last.items() if now and identity not in ends)
    assert len({each.identity for each in reported}) == len(reported)
    assert all(each.has_ended for each in reported)
    assert after_ns - before_ns == stayed + gone


def lost_ends(watch: Watch) -> int:
    """How many ends may not have been seen: each kernel event that was missed may be one."""
    return watch.losses().missed_events


def test_a_process_that_is_gone_has_reported_all(start_workload: StartWorkload) -> None:
    workload = start_workload("crowd", 8, 0)
    reported: list[ThreadTotals] = []
    with Watch(find_target(workload.pid), PLAN, totals=True) as watch:
        workload.ask()
        threads = {each.tid for each in read(watch).threads.values()}
        workload.kill()

        def all_reported() -> bool:
            reported.extend(watch.thread_totals.ended())
            return len(reported) + lost_ends(watch) >= len(threads)

        wait_until(all_reported)

    assert {each.tid for each in reported} <= threads
    assert all(life_ns(each) > 0 for each in reported)
