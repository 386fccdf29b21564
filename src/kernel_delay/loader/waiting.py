"""Waiting, unless the user or the measured process ends it earlier; and looking meanwhile."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from types import FrameType
from typing import Literal, Protocol, Self

from kernel_delay.errors import NoInputError
from kernel_delay.host import signals
from kernel_delay.loader._records import lib
from kernel_delay.loader.maps import Notices

Ended = Literal["time", "interrupt", "exit"]

ReportLeft = Callable[[int], None]

REPORT_EACH_MS = 500


class Readable(Protocol):
    """What has a descriptor to poll."""

    def fileno(self) -> int:
        """Return the descriptor."""


class Waiter:
    """Waits on the clock, SIGINT, SIGTERM and SIGHUP, the exit of all processes and notices.

    While it is entered the first of these signals ends a wait instead of the tool.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        """Watch those of these processes that are there; ProcessLookupError if none is."""
        self._processes: set[int] = set()
        with ExitStack() as failing:
            for pid in pids:
                with suppress(ProcessLookupError):
                    fd = os.pidfd_open(pid)
                    self._processes.add(fd)
                    failing.callback(os.close, fd)
            if not self._processes:
                raise ProcessLookupError
            self._wakeup, self._signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            failing.callback(os.close, self._wakeup)
            failing.callback(os.close, self._signalled)
            self._closing = failing.pop_all()
        self._notices: Notices | None = None
        self._act: Callable[[], None] = lambda: None
        self._each_ms: int | None = None
        self._act_each: Callable[[], None] = lambda: None

    def act_at_notices(self, notices: Notices, act: Callable[[], None]) -> None:
        """Call `act` at each of these notices while anything is waited for."""
        self._notices, self._act = notices, act

    def act_each(self, each_ms: int, act: Callable[[], None]) -> None:
        """Call `act` so often while the clock is waited for."""
        self._each_ms, self._act_each = each_ms, act

    def __enter__(self) -> Self:
        """Take the signals over."""
        self._closing.enter_context(signals.signals_end_waits(self._signalled))
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        self.close()

    def close(self) -> None:
        """Wait no more; what leaves the context does the same."""
        self._closing.close()

    @property
    def interrupted(self) -> bool:
        """Whether one of the signals came."""
        return signals.noted()

    @property
    def exited(self) -> bool:
        """Whether all processes have exited."""
        return self._have_exited(self._poll(0))

    def reporting(self) -> AbstractContextManager[None]:
        """Let the first signal end the tool soon, while what was waited for is worked on."""
        return signals.signals_end_soon()

    def wait_until(self, until_ns: int, report_left: ReportLeft | None = None) -> Ended:
        """Wait until that time of CLOCK_MONOTONIC, and return what ended the wait.

        `report_left` is called with how many ns are left, twice a second, and with 0 at the end.
        """
        if report_left is None:
            return self._wait_until(until_ns, lambda: None, None)
        try:
            notify = partial(_report_left, report_left, until_ns)
            return self._wait_until(until_ns, notify, REPORT_EACH_MS)
        finally:
            report_left(0)

    def _wait_until(self, until_ns: int, notify: Callable[[], None], each_ms: int | None) -> Ended:
        while True:
            self._act_each()
            notify()
            left_ms = (until_ns - lib.monotonic_ns()) // 1_000_000
            poll_ms = max(0, min(left_ms, each_ms or left_ms, self._each_ms or left_ms))
            ready = self._poll_and_act(poll_ms)
            if left_ms <= 0:
                self.sleep_until(until_ns)
                return "time"
            if self.interrupted:
                return "interrupt"
            if self._have_exited(ready):
                return "exit"

    def wait_for_notice(self, notices: Notices, deadline_ns: int | None) -> Ended | None:
        """Wait for a notice, or for what else ends the wait; None is a notice."""
        left_ms = None
        if deadline_ns is not None:
            left_ms = max(0, -(-(deadline_ns - lib.monotonic_ns()) // 1_000_000))
        ready = self._poll(left_ms, notices.fileno())
        if self.interrupted:
            return "interrupt"
        if notices.fileno() in ready:
            notices.clear()
            if notices is self._notices:
                self._act()
            return None
        if self._have_exited(ready):
            return "exit"
        return "time" if not ready else None

    def wait_to_read(self, records: Readable, until_ns: int) -> Ended | None:
        """Wait for something to read, or for what else ends the wait; None: there is."""
        left_ms = max(0, -(-(until_ns - lib.monotonic_ns()) // 1_000_000))
        ready = self._poll(left_ms, records.fileno())
        if self.interrupted:
            return "interrupt"
        if records.fileno() in ready:
            return None
        return "exit" if self._have_exited(ready) else "time"

    def _have_exited(self, ready: list[int]) -> bool:
        """Return whether all processes have, as the descriptors show by now."""
        self._processes.difference_update(ready)
        return not self._processes

    def _poll_and_act(self, timeout_ms: int) -> list[int]:
        if self._notices is None:
            return self._poll(timeout_ms)
        ready = self._poll(timeout_ms, self._notices.fileno())
        if self._notices.fileno() in ready:
            self._notices.clear()
            self._act()
        return ready

    def _poll(self, timeout_ms: int | None, *more: int) -> list[int]:
        # Once all have exited there is nothing left to wait for.
        if not self._processes:
            timeout_ms = 0
        poll = select.poll()
        for fd in (*self._processes, self._wakeup, *more):
            poll.register(fd, select.POLLIN)
        return [fd for fd, _ in poll.poll(timeout_ms)]

    @staticmethod
    def sleep_until(until_ns: int) -> None:
        """Wait until that time of CLOCK_MONOTONIC whatever happens."""
        while (left_ns := until_ns - lib.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)


def _report_left(report_left: ReportLeft, until_ns: int) -> None:
    left_ns = until_ns - int(lib.monotonic_ns())
    if left_ns > 0:
        report_left(left_ns)


def watch(pid: int, *others: int) -> Waiter:
    """Return a Waiter for those of these processes that are there; NoInputError if none is."""
    try:
        return Waiter((pid, *others))
    except ProcessLookupError:
        gone = f"all {len(others) + 1} processes have" if others else f"process {pid} has"
        raise NoInputError(f"{gone} exited: nothing to measure") from None


# A look takes what came since the last: often enough for a reader's eye, seldom
# enough not to disturb what is measured.
LOOK_NS = 50_000_000


def looks(waiter: Waiter, duration_ns: int | None) -> Iterator[Ended | None]:
    """Yield None each time that it is time to look, and last what ended it.

    That is after `duration_ns` (None: never), a signal, or the process's exit.
    """
    deadline_ns = None if duration_ns is None else lib.monotonic_ns() + duration_ns
    while True:
        until_ns = lib.monotonic_ns() + LOOK_NS
        if deadline_ns is not None:
            until_ns = min(until_ns, deadline_ns)
        ended = waiter.wait_until(until_ns)
        if ended != "time" or until_ns == deadline_ns:
            yield ended
            return
        yield None


def follow(
    pid: int,
    duration_ns: int | None,
    take: Callable[[], bool],
    begin: Callable[[], None],
) -> Ended:
    """Call `take` each time that it is time to look at what process `pid` did.

    Until it says that there is enough, or what ends looks(); returns what ended it, "time" for
    enough. Raises NoInputError if the process has exited. Before, `begin` may say that a signal
    ends it: one that comes from then on does, and not the tool.
    """
    with watch(pid) as waiter:
        begin()
        for ended in looks(waiter, duration_ns):
            enough = take()
            if enough or ended is not None:
                return ended or "time"
    raise AssertionError("looks() ends with what ended it")


class DumpRequests:
    """Notes SIGUSR1 while it is entered; the signal interrupts nothing."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self._requested = False

    def __enter__(self) -> Self:
        """Take the signal over."""
        self._before = signal.signal(signal.SIGUSR1, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signal back."""
        signal.signal(signal.SIGUSR1, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._requested = True

    def take(self) -> bool:
        """Return whether the signal came since the last call."""
        requested, self._requested = self._requested, False
        return requested
