"""LONG POLL: how long a thread works between two polls, whichever poll it is."""

import pytest

from kernel_delay.host.kernel_names import POLLS
from tests.integration.capture.captures import Measure, thread
from tests.integration.capture.workload import I386_RUNS, StartWorkload
from tests.system_calls import syscall_number

NATIVE = [name for name in POLLS if syscall_number(name) is not None]

# The older select(2) of i386 takes its arguments by a struct, and no libc calls it.
I386 = [name for name in POLLS if name != "select"]


@pytest.mark.parametrize("name", NATIVE)
def test_work_between_polls_is_as_seen_from_both_sides(
    name: str, start_workload: StartWorkload, measure: Measure
) -> None:
    check_work_between_polls(name, start_workload, measure, compat=False)


@pytest.mark.skipif(not I386_RUNS, reason="this machine's 32-bit programs are not i386's")
@pytest.mark.parametrize("name", I386)
def test_work_between_polls_of_a_32_bit_program(
    name: str, start_workload: StartWorkload, measure: Measure
) -> None:
    check_work_between_polls(name, start_workload, measure, compat=True)


def check_work_between_polls(
    name: str, start_workload: StartWorkload, measure: Measure, compat: bool
) -> None:
    count, work_ns = 20, 2_000_000
    workload = start_workload("polls", name, count, work_ns, compat=compat)
    assert workload.ready["there"]

    sample, seen = measure(workload)

    long_poll = thread(sample, workload.pid).long_poll
    assert long_poll is not None
    assert count - 1 - sample.lost.missed_events <= long_poll.count <= count - 1
    if sample.lost.missed_events:
        return
    inside, outside = seen["inside"], seen["outside"]
    assert work_ns <= inside["min_ns"] <= long_poll.min_ns <= outside["min_ns"]
    assert inside["max_ns"] <= long_poll.max_ns <= outside["max_ns"]
    assert inside["total_ns"] <= long_poll.total_ns <= outside["total_ns"]
