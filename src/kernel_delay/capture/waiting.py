"""Waiting for a moment, unless the user or the measured process ends it earlier."""

import os
import select
import signal
import time
from types import FrameType, TracebackType
from typing import Any, Literal, Self

from kernel_delay.capture._records import lib

Ended = Literal["time", "interrupt", "exit"]


class Waiter:
    """Waits on the clock, on SIGINT and SIGTERM, and on a process's exit.

    While it is entered the two signals end a wait instead of the tool.
    """

    def __init__(self, pid: int) -> None:
        """Watch process `pid`; ProcessLookupError if it is gone."""
        self._process = os.pidfd_open(pid)
        self._wakeup, self._signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._handlers: dict[signal.Signals, Any] = {}
        self._interrupted = False

    def __enter__(self) -> Self:
        """Take the signals over."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for fd in (self._process, self._wakeup, self._signalled):
            os.close(fd)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True
        os.write(self._signalled, b"\0")

    def wait_until(self, moment_ns: int) -> Ended:
        """Wait for the CLOCK_MONOTONIC moment, and return what ended the wait."""
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while True:
            left_ms = (moment_ns - int(lib.monotonic_ns())) // 1_000_000
            ready = [fd for fd, _ in poll.poll(max(0, left_ms))]
            if left_ms <= 0:
                self.sleep_until(moment_ns)
                return "time"
            if self._interrupted:
                return "interrupt"
            if self._process in ready:
                return "exit"

    @staticmethod
    def sleep_until(moment_ns: int) -> None:
        """Wait for the CLOCK_MONOTONIC moment whatever happens."""
        while (left_ns := moment_ns - int(lib.monotonic_ns())) > 0:
            time.sleep(left_ns / 1e9)
