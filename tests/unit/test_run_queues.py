"""Who had a CPU while a thread waited for it: against a look at every nanosecond."""

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.capture.threads.run_queues import (
    CpuSlices,
    CpuWait,
    Running,
    Slice,
    Taker,
    waited,
)

START_NS, STOP_NS, END_NS = 30, 70, 120


def task(number: int) -> Taker:
    return Taker(number, number, number, 0, 0, 0, False, f"task{number}")


class Life(NamedTuple):
    """Who has a CPU in each nanosecond, from when a thread waits, and when it is charged for."""

    tasks: list[int]
    since_ns: int
    reported_ns: int


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Tasks take turns of any length; what is there is read at any time after the window."""
    tasks: list[int] = []
    while len(tasks) < END_NS:
        tasks += [draw(st.integers(0, 4))] * draw(st.integers(1, 30))
    return Life(tasks, draw(st.integers(0, STOP_NS + 5)), draw(st.integers(STOP_NS, END_NS - 1)))


def slices_of(life: Life, first: int) -> tuple[CpuSlices, CpuWait]:
    """What is written of it while the thread waits, from slice number `first` on."""
    written = [
        Slice(now, task(life.tasks[now - 1]), True)
        for now in range(life.since_ns + 1, life.reported_ns + 1)
        if life.tasks[now] != life.tasks[now - 1]
    ]
    running = Running(first + len(written), task(life.tasks[life.reported_ns]))
    return CpuSlices(first, written), CpuWait(1, first, life.since_ns, life.since_ns, running)


def seen(life: Life) -> Counter[int]:
    return Counter(life.tasks[max(START_NS, life.since_ns) : STOP_NS])


@given(lives(), st.integers(1, 1000))
def test_shares_of_each_task_match_a_nanosecond_scan(life: Life, first: int) -> None:
    cpu, wait = slices_of(life, first)
    found = waited(wait, cpu, START_NS, STOP_NS).taken_ns
    assert None not in found
    assert {who.task: ns for who, ns in found.items() if who} == seen(life)


@given(lives(), st.data())
def test_missed_slices_are_unknown_and_the_sum_stays(life: Life, data: st.DataObject) -> None:
    cpu, wait = slices_of(life, 1)
    slices = [cpu.slices[place] for place in range(len(cpu.slices))]
    gone = data.draw(st.integers(0, len(slices)))
    kept = slices[gone:]
    if len(kept) > 1:
        # The program was not run on one switch, and the next one shows it.
        missed = data.draw(st.integers(0, len(kept) - 2))
        del kept[missed]
        kept[missed] = kept[missed]._replace(known=False)
    running = Running(1 + gone + len(kept), task(life.tasks[life.reported_ns]))
    wait = CpuWait(1, 1, life.since_ns, life.since_ns, running)
    found = waited(wait, CpuSlices(1 + gone, kept), START_NS, STOP_NS).taken_ns
    assert sum(found.values()) == seen(life).total()
    # What is said of a task is so: no more than a look at every nanosecond finds.
    assert all(0 < ns <= (seen(life)[who.task] if who else ns) for who, ns in found.items())
    if gone:
        # Nobody is said to have had the CPU in what is before the first slice that is there.
        until = min(kept[0].end_ns, STOP_NS) if kept else STOP_NS
        assert found.get(None, 0) >= min(until - max(START_NS, life.since_ns), seen(life).total())


OWN, OTHER = task(1), task(2)


def throttled_slice(end_ns: int) -> Slice:
    return Slice(end_ns, OWN, True, group=7, throttled=True)


def test_wait_is_throttling_until_its_group_runs_again() -> None:
    slices = [
        throttled_slice(10),
        Slice(20, OTHER, True, group=8),
        Slice(30, task(0), True),
        Slice(35, OWN, True, group=7),
        Slice(40, OTHER, True, group=8),
        throttled_slice(50),
    ]
    wait = CpuWait(1, 1, 5, 5, Running(7, OTHER, 8), group=7)
    found = waited(wait, CpuSlices(1, slices), 0, 60)
    assert found.throttled_ns == (20 - 10) + (30 - 20) + (60 - 50)
    assert found.taken_ns == {OWN: (10 - 5) + (35 - 30) + (50 - 40), OTHER: 40 - 35}


def test_throttling_of_another_group_is_a_cpu_wait() -> None:
    slices = [throttled_slice(10), Slice(20, OTHER, True, group=8)]
    for group in (0, 8):
        wait = CpuWait(1, 1, 5, 5, Running(3, OTHER, 8), group=group)
        found = waited(wait, CpuSlices(1, slices), 0, 60)
        assert found.throttled_ns == 0
        assert found.taken_ns == {OWN: 10 - 5, OTHER: 60 - 10}
