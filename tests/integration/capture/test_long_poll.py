"""LONG POLL: how long a thread works between two polls, whichever poll it is."""

import pytest

from kernel_delay.host.syscalls import POLLS
from tests.integration.capture.captures import Measure, thread
from tests.integration.capture.workload import StartWorkload


@pytest.mark.parametrize("name", POLLS)
def test_work_between_polls_is_as_seen_from_both_sides(
    name: str, start_workload: StartWorkload, measure: Measure
) -> None:
    count, work_ns = 20, 2_000_000
    workload = start_workload("polls", name, count, work_ns)
    if not workload.ready["there"]:
        pytest.skip(f"this architecture has no {name}")

    sample, seen = measure(workload)

    long_poll = thread(sample, workload.pid).long_poll
    assert long_poll is not None
    assert long_poll.count == count - 1
    inside, outside = seen["inside"], seen["outside"]
    assert work_ns <= inside["min_ns"] <= long_poll.min_ns <= outside["min_ns"]
    assert inside["max_ns"] <= long_poll.max_ns <= outside["max_ns"]
    assert inside["total_ns"] <= long_poll.total_ns <= outside["total_ns"]
