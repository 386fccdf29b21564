"""Syscall events of a process, captured as the command does, for tests of what comes out."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from msgspec import structs

from kernel_delay.capture.plan import EventPlan, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.capture.windows import LONGEST_LEAD_NS
from kernel_delay.host.syscalls import syscalls
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample, StackFrame, SyscallEvent
from tests.workload import Workload, wait_until_it_slept

Start = Callable[..., Workload]
"""Starts a workload by its name, with arguments."""

LONG_ENOUGH_S = 3600.0
"""A window that the process's exit is to end."""


def capture(
    pid: int,
    events: EventPlan | None,
    when_open: Callable[[], None] = lambda: None,
    sample_time_s: float = LONG_ENOUGH_S,
    at_end: Callable[[], None] = lambda: None,
) -> Sample:
    """Measure the process in one window; `when_open` is called when that is open.

    `at_end`, when it is over and the programs are still there.
    """
    opened = threading.Event()

    def go_on() -> None:
        opened.wait()
        time.sleep(2 * LONGEST_LEAD_NS / 1e9)
        when_open()

    plan = WindowPlan(sample_time_ns=int(sample_time_s * 1e9))
    caller = threading.Thread(target=go_on)
    options = SessionOptions(events=events, on_open=lambda epoch: opened.set())
    caller.start()
    try:
        with Session(find_target(pid), plan, options) as session:
            (sample,) = session.samples()
            at_end()
    finally:
        opened.set()
        caller.join()
    return sample


def until_it_slept(process: Workload, times: int) -> Callable[[], None]:
    """What lets a process sleep so often, however busy the machine is, and then kills it."""

    def wait() -> None:
        wait_until_it_slept(process.pid, times)
        process.kill()

    return wait


def event_plan(*names: str, **options: object) -> EventPlan:
    """A plan for the system calls of these names."""
    wanted = frozenset(call for name in names for call in syscalls(name))
    return structs.replace(EventPlan(syscalls=wanted or None), **options)


def events_of(sample: Sample) -> list[SyscallEvent]:
    """The events, which there must be."""
    assert sample.syscall_events is not None
    return list(sample.syscall_events)


def user_stack(sample: Sample, event: SyscallEvent) -> tuple[StackFrame, ...]:
    """The event's user stack, which there must be."""
    assert event.user_stack is not None
    return sample.stacks[event.user_stack]


def check_sums(sample: Sample) -> None:
    """Each event is in the tables, and nothing is in these that was no event or lost."""
    events = events_of(sample)
    counts: Counter[tuple[int, int]] = Counter()
    totals: Counter[tuple[int, int]] = Counter()
    most: dict[tuple[int, int], int] = {}
    for event in events:
        key, length_ns = (event.tid, event.number), event.exit_ns - event.entry_ns
        counts[key] += 1
        totals[key] += length_ns
        most[key] = max(length_ns, most.get(key, 0))
        assert sample.window.start_ns <= event.entry_ns <= event.exit_ns < sample.window.stop_ns
    # Calls that were under way at a boundary of the window are there too, with a count of 0.
    tables = {
        (thread.tid, call.number): call
        for thread in sample.threads
        for call in thread.syscalls
        if call.count
    }
    lost = sample.lost.events + sample.lost.shorter_events
    assert sum(counts.values()) + lost == sum(call.count for call in tables.values())
    assert counts.keys() <= tables.keys()
    assert all(counts[key] <= tables[key].count for key in counts)
    if not lost:
        for key, call in tables.items():
            assert (counts[key], totals[key], most[key]) == (call.count, call.total_ns, call.max_ns)
    assert [event.entry_ns for event in events] == sorted(event.entry_ns for event in events)
