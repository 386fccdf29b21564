"""A capture: programs attached to a process, window after window, a Sample each."""

import datetime
import os
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from msgspec import Struct

from kernel_delay.capture._records import lib
from kernel_delay.capture.collector import Collector
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.waiting import Ended, Waiter
from kernel_delay.capture.windows import Windows, wait_for_programs
from kernel_delay.errors import NoInputError
from kernel_delay.libbpf import start_log
from kernel_delay.model import Sample, Target, Window
from kernel_delay.target import ProcessTarget


class SessionOptions(Struct, frozen=True):
    """What a session is set up with.

    `buffer_pages`: size of the event buffer in pages, a power of two.
    `debug`: -1 shows nothing of libbpf's log, 0 warnings, 1 information,
    2 all of it and the verifier's.
    """

    buffer_pages: int = 1024
    debug: int = -1


class Session:
    """Measures one process. Used as a context manager, it detaches at the end."""

    def __init__(self, target: ProcessTarget, options: SessionOptions) -> None:
        """Prepare; entering the session loads and attaches."""
        self._target = target
        self._options = options
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Load and attach the programs.

        Raises PermissionDeniedError or UnavailableError when the kernel
        refuses, and NoInputError when the process is gone.
        """
        start_log(self._options.debug)
        with ExitStack() as failing:
            failing.callback(self._closing.close)
            self._waiter = self._closing.enter_context(_watch(self._target.pid))
            programs = self._closing.enter_context(Programs(self._target.pid))
            self._windows = Windows(programs.control)
            self._collector = Collector(programs)
            failing.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Detach and unload."""
        self._closing.close()

    def samples(self, sample_time_ns: int, count: int, interval_ns: int) -> Iterator[Sample]:
        """Measure `count` windows of `sample_time_ns` each, `interval_ns` apart.

        Without an interval the next window is opened before the last one is
        read. SIGINT, SIGTERM and the process's exit end the window there: its
        Sample is yielded, and is the last one.
        """
        epoch = self._windows.open(sample_time_ns)
        for left in reversed(range(count)):
            ended = self._wait_for(epoch)
            goes_on = left > 0 and ended == "time"
            measured = epoch
            if goes_on and not interval_ns:
                epoch = self._windows.open(sample_time_ns)
            yield self._collect(measured, ended)
            if not goes_on:
                return
            if interval_ns:
                if self._waiter.wait_until(lib.monotonic_ns() + interval_ns) != "time":
                    return
                epoch = self._windows.open(sample_time_ns)

    def _wait_for(self, epoch: int) -> Ended:
        _, stop_ns = self._windows.edges(epoch)
        ended = self._waiter.wait_until(stop_ns)
        if ended != "time":
            self._windows.end()
            self._waiter.sleep_until(self._windows.edges(epoch)[1])
        return ended

    def _collect(self, epoch: int, ended: Ended) -> Sample:
        wait_for_programs()
        start_ns, stop_ns = self._windows.edges(epoch)
        now = datetime.datetime.now(datetime.UTC)
        since_start_ns = int(lib.monotonic_ns()) - start_ns
        uname = os.uname()
        return Sample(
            schema="kernel-delay/1",
            target=Target(pid=self._target.pid, comm=self._target.comm, exe=self._target.exe),
            kernel=uname.release,
            host=uname.nodename,
            window=Window(
                start_ns=start_ns,
                stop_ns=stop_ns,
                duration_ns=stop_ns - start_ns,
                start_time=now - datetime.timedelta(microseconds=since_start_ns / 1000),
                collected_time=now,
                ended_by=ended,
            ),
            threads=self._collector.collect(epoch),
            lost=self._collector.lost(),
        )


def _watch(pid: int) -> Waiter:
    try:
        return Waiter(pid)
    except ProcessLookupError:
        raise NoInputError(f"process {pid} has exited: nothing to measure") from None
