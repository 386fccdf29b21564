"""Captures in the tests' own process, around what they do."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import pytest

from kernel_delay.analysis.verdict import judge
from kernel_delay.capture.plan import MOST_SLICES, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.capture.windows.control import LONGEST_LEAD_NS
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample

Value = TypeVar("Value")

# As a share of the window: what is read further from its boundaries is not said to be its own.
READ_WITHIN = 0.05


@contextmanager
def interrupting(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """A thread to be started that works and then sends SIGINT; it ends without a failure."""
    failures: list[BaseException] = []

    def work_and_interrupt() -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)
        os.kill(os.getpid(), signal.SIGINT)

    worker = threading.Thread(target=work_and_interrupt)
    yield worker
    worker.join()
    assert not failures


class Timed(NamedTuple):
    """A Sample, and how far from its window's boundaries what is read there was read at most."""

    sample: Sample
    apart_ns: int

    def at_boundaries(self, value: Value | None) -> Value:
        """Return what is read there. That there is none is right where it was read too late."""
        if value is None:
            window_ns = self.sample.window.duration_ns
            told = f"of a window of {window_ns} ns, up to {self.apart_ns} ns from its boundaries"
            assert self.apart_ns > READ_WITHIN * window_ns, f"it was read in time: {told}"
            pytest.skip(f"this machine is too busy to read in time: {told}")
        return value


def timed(pid: int, work: Callable[[], None], *, timeline: bool = False) -> Timed:
    """Capture from before `work` begins until it is done."""
    plan = WindowPlan(sample_time_ns=60 * 10**9)
    opened_ns: list[int] = []
    with interrupting(work) as worker:

        def on_open(epoch: int) -> None:
            opened_ns.append(time.monotonic_ns())
            worker.start()

        options = SessionOptions(on_open=on_open, timeline=MOST_SLICES if timeline else None)
        with Session(find_target(pid), plan, options) as session:
            samples = [(judge(sample), time.monotonic_ns()) for sample in session.samples()]
    ((sample, made_ns),) = samples
    window = sample.window
    # A window is to open so soon after it was asked for, and what is read then is read before.
    at_start_ns = max(LONGEST_LEAD_NS, opened_ns[0] - window.start_ns)
    return Timed(sample, at_start_ns + made_ns - window.stop_ns)


def measured(pid: int, work: Callable[[], None], *, timeline: bool = False) -> Sample:
    """Capture as timed(): the Sample alone."""
    return timed(pid, work, timeline=timeline).sample
