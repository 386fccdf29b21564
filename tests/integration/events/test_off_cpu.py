"""How much of a single call's time was off the CPUs: of all calls as the account has it."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample, SyscallStats
from tests.event_captures import Start, capture, event_plan, events_of, until_it_slept

PAUSE_NS = 1_000_000
Key = tuple[int, int]
WITHOUT_STACKS = event_plan(stack_mode="none")


class Sums(NamedTuple):
    """A thread's calls of one kind: what the account has, and what their events come to.

    `edge_ns` is the time in calls that crossed an edge of the window, and so are no events.
    `unknown_ns` is the time in events of which it is not known, as something was missed.
    """

    call: SyscallStats
    events: int
    events_ns: int
    unknown_ns: int

    @property
    def off_ns(self) -> int:
        return sum(
            ns or 0 for ns in (self.call.ready_ns, self.call.blocked_ns, self.call.stopped_ns)
        )

    @property
    def edge_ns(self) -> int:
        call = self.call
        return self.off_ns + (call.on_cpu_ns or 0) + (call.unaccounted_ns or 0) - call.total_ns

    @property
    def whole(self) -> bool:
        missed = self.unknown_ns or self.call.unaccounted_ns or self.events < self.call.count
        return not missed and not self.edge_ns


def sums(sample: Sample) -> Iterator[Sums]:
    events, events_ns, unknown_ns = Counter[Key](), Counter[Key](), Counter[Key]()
    for event in events_of(sample):
        key, length_ns = (event.tid, event.number), event.exit_ns - event.entry_ns
        events[key] += 1
        if event.off_cpu_ns is None:
            unknown_ns[key] += length_ns
        else:
            assert 0 <= event.off_cpu_ns <= length_ns
            events_ns[key] += event.off_cpu_ns
    for thread in sample.threads:
        for call in thread.syscalls:
            key = (thread.tid, call.number)
            yield Sums(call, events[key], events_ns[key], unknown_ns[key])


@pytest.mark.parametrize("name", ["storm", "counted_calls"])
def test_events_sum_up_to_the_account(start: Start, name: str) -> None:
    if name == "storm":
        workload = start(name, "3", "1000")
        sample = capture(workload.pid, WITHOUT_STACKS, until_it_slept(workload, 200))
    else:
        workload = start(name)
        sample = capture(workload.pid, WITHOUT_STACKS, workload.send)
    compared = 0
    for each in sums(sample):
        assert 0 <= each.off_ns - each.events_ns <= each.edge_ns + each.unknown_ns
        if each.whole:
            assert each.events_ns == each.off_ns
            compared += each.call.count
    # What is missed at times leaves less to compare exactly.
    assert sample.lost.missed_events or compared >= 50


def test_sleep_is_off_cpu_for_most_of_its_length(start: Start) -> None:
    workload = start("storm", "1", str(PAUSE_NS // 1000))
    sample = capture(workload.pid, WITHOUT_STACKS, until_it_slept(workload, 50))
    # The last one is ended by the signal that ends the program.
    calls = [event for event in events_of(sample) if event.name == "clock_nanosleep"][:-1]
    slept = [event for event in calls if event.off_cpu_ns is not None]
    assert len(slept) > len(calls) / 2
    for event in slept:
        assert event.off_cpu_ns is not None
        assert 0 < event.off_cpu_ns < event.exit_ns - event.entry_ns
    # What it took to go to sleep, with its timer running, was on a CPU: a slow one takes long.
    assert max(event.off_cpu_ns or 0 for event in slept) > PAUSE_NS / 2


def test_without_accounting_it_is_not_known(start: Start) -> None:
    workload = start("storm", "1", "1000")
    options = SessionOptions(events=WITHOUT_STACKS, accounting=False)
    plan = WindowPlan(sample_time_ns=2_000_000_000)
    with Session(find_target(workload.pid), plan, options) as session:
        (sample,) = session.samples()
    assert {event.off_cpu_ns for event in events_of(sample)} == {None}
