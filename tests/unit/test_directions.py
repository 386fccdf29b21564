"""Which figures of a comparison are better if they are less, and which say nothing."""

import pytest

from kernel_delay.analysis.figures import less_is_better


@pytest.mark.parametrize(
    "name",
    [
        *("ready", "irq", "throttled", "stopped", "frozen"),
        *("ready.mean", "ready.p99", "write.mean", "fsync.p99", "pread64.mean", "openat.mean"),
        *("root/postgres.stopped", "root/a.b.throttled", "root/*.frozen"),
    ],
)
def test_less_lost_time_is_better(name: str) -> None:
    assert less_is_better(name, of_rounds=False)


@pytest.mark.parametrize(
    "name",
    [
        # How much work there was.
        *("user", "kernel", "guest", "write.rate", "ready.rate", "run.rate"),
        # A thread without work is blocked, and waits in these.
        *("blocked", "poll.mean", "epoll_wait.p99", "futex.mean", "read.mean", "accept4.mean"),
        *("clock_nanosleep.mean", "root/postgres.running", "root/postgres.sleeping"),
        *("absent", "unaccounted", "tool", "syscall 999.mean"),
    ],
)
def test_work_and_waits_for_work_have_no_direction(name: str) -> None:
    assert not less_is_better(name, of_rounds=False)


@pytest.mark.parametrize(
    ("name", "is_better"),
    [
        *(("round.mean", True), ("user.round", True), ("blocked.round", True)),
        *(("blocked/socket_receive.round", True), ("futex.mean", True), ("write.round", True)),
        *(("blocked", False), ("ready", False), ("write.count", False), ("cause/disk", False)),
    ],
)
def test_whatever_takes_time_makes_a_round_longer(name: str, is_better: bool) -> None:
    assert less_is_better(name, of_rounds=True) == is_better
