"""Waiting, on this process's own signals and a real process."""

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest

from kernel_delay.errors import NoInputError
from kernel_delay.loader import waiting
from kernel_delay.loader._records import lib
from kernel_delay.loader.maps import Notices
from kernel_delay.loader.waiting import Waiter, follow, looks, watch
from tests.workload import sleeping

LATER_NS = 3_600 * 10**9


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that would run for long."""
    with sleeping() as running:
        yield running


class Pipe(Notices):
    """Notices through a pipe."""

    def __init__(self) -> None:
        """Have none yet."""
        self._read, self._written = os.pipe()

    def notify(self) -> None:
        """Have one."""
        os.write(self._written, b"\0")

    def fileno(self) -> int:
        """Return what is readable when there is one."""
        return self._read

    def clear(self) -> None:
        """Take one away."""
        os.read(self._read, 1)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._read)
        os.close(self._written)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    notices = Pipe()
    yield notices
    notices.close()


def test_a_wait_lasts_until_its_moment(process: "subprocess.Popen[bytes]") -> None:
    with watch(process.pid) as waiter:
        until_ns = lib.monotonic_ns() + 3_000_000
        assert waiter.wait_until(until_ns) == "time"
        assert lib.monotonic_ns() >= until_ns


def test_wait_reports_the_time_left_until_its_end(
    process: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "REPORT_EACH_MS", 1)
    reported: list[int] = []

    def report(left_ns: int) -> None:
        reported.append(left_ns)
        if len(reported) == 2:
            process.kill()

    with watch(process.pid) as waiter:
        assert waiter.wait_until(lib.monotonic_ns() + 3_000_000, reported.append) == "time"
        assert reported[-1] == 0
        reported.clear()
        assert waiter.wait_until(lib.monotonic_ns() + LATER_NS, report) == "exit"
        assert LATER_NS >= reported[0] > reported[1] > 0
        assert reported[-1] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_wait_and_is_given_back(
    process: "subprocess.Popen[bytes]", number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    with watch(process.pid) as waiter:
        assert not waiter.interrupted
        signal.raise_signal(number)
        assert waiter.interrupted
        assert waiter.wait_until(lib.monotonic_ns() + LATER_NS) == "interrupt"
    assert signal.getsignal(number) is before


def test_the_processs_exit_ends_a_wait(process: "subprocess.Popen[bytes]") -> None:
    with watch(process.pid) as waiter:
        process.kill()
        assert waiter.wait_until(lib.monotonic_ns() + LATER_NS) == "exit"


def test_a_notice_ends_a_wait_for_one(process: "subprocess.Popen[bytes]", pipe: Pipe) -> None:
    with watch(process.pid) as waiter:
        assert waiter.wait_for_notice(pipe, lib.monotonic_ns() + 1) == "time"
        pipe.notify()
        assert waiter.wait_for_notice(pipe, None) is None
        assert waiter.wait_for_notice(pipe, lib.monotonic_ns() + 1) == "time"


def test_notice_precedes_the_exit_and_interrupt_precedes_both(
    process: "subprocess.Popen[bytes]", pipe: Pipe
) -> None:
    with watch(process.pid) as waiter:
        process.kill()
        process.wait()
        pipe.notify()
        assert waiter.wait_for_notice(pipe, None) is None
        assert waiter.wait_for_notice(pipe, None) == "exit"
        signal.raise_signal(signal.SIGINT)
        pipe.notify()
        assert waiter.wait_for_notice(pipe, None) == "interrupt"


def test_it_is_time_to_look_again_until_the_end(process: "subprocess.Popen[bytes]") -> None:
    with watch(process.pid) as waiter:
        *before, last = looks(waiter, 120_000_000)
        assert last == "time"
        # A busy machine can let the time pass before the first look.
        assert set(before) <= {None}
        process.kill()
        assert list(looks(waiter, None))[-1] == "exit"


def test_signal_that_comes_as_soon_as_it_is_said_ends_what_follows(
    process: "subprocess.Popen[bytes]",
) -> None:
    """Who reads that Ctrl-C ends it may press that at once."""
    looks_at = iter([False])
    interrupt = partial(os.kill, os.getpid(), signal.SIGINT)
    ended = follow(process.pid, None, lambda: next(looks_at), interrupt)
    assert ended == "interrupt"
    assert list(looks_at) == []


def test_exited_process_cannot_be_measured() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with pytest.raises(NoInputError, match=f"process {gone.pid} has exited"):
        watch(gone.pid)


def test_a_waiter_closes_its_descriptors(process: "subprocess.Popen[bytes]") -> None:
    before = os.listdir("/proc/self/fd")
    with Waiter([process.pid]):
        assert len(os.listdir("/proc/self/fd")) == len(before) + 3
    assert os.listdir("/proc/self/fd") == before
