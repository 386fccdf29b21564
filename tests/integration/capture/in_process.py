"""Captures in the tests' own process, around what they do."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from kernel_delay.analysis.verdict import judge
from kernel_delay.capture.plan import MOST_SLICES, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.capture.windows import LONGEST_LEAD_NS
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample
from tests.emulation import is_emulated
from tests.workload import LASTS_NS

Value = TypeVar("Value")

# Before undisturbed() workloads. A nice value counts only within a session (sched(7), autogroup).
REAL_TIME = os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(2)

# What is read at the boundaries of a window is read within a twentieth of it: long enough for that.
LONG_WINDOW_S = 40 if is_emulated() else 2


@contextmanager
def before_others() -> Iterator[None]:
    """Have this thread, but none that it starts, hardly ever wait for a CPU, where it may."""
    usual = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(PermissionError):
        os.sched_setscheduler(0, *REAL_TIME)
    try:
        yield
    finally:
        os.sched_setscheduler(0, *usual)


@contextmanager
def interrupting(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """A thread to be started that works and then sends SIGINT; it ends without a failure."""
    failures: list[BaseException] = []

    def work_and_interrupt() -> None:
        try:
            with before_others():
                work()
        except BaseException as failure:
            failures.append(failure)
        os.kill(os.getpid(), signal.SIGINT)

    worker = threading.Thread(target=work_and_interrupt)
    yield worker
    worker.join()
    assert not failures


def once_open(worker: threading.Thread) -> Callable[[int], None]:
    """What starts the worker, for on_open, at the first window: it works when that is open."""

    def start(epoch: int) -> None:
        if worker.ident is None:
            time.sleep(LONGEST_LEAD_NS / 1e9)
            worker.start()

    return start


class Timed(NamedTuple):
    """A Sample, and how far from its window's boundaries what is read there was read at most."""

    sample: Sample
    apart_ns: int

    def at_boundaries(self, value: Value | None) -> Value:
        """Return what is read there: it is there."""
        window_ns = self.sample.window.duration_ns
        assert value is not None, f"read up to {self.apart_ns} ns from a window of {window_ns} ns"
        return value


def timed(pid: int, work: Callable[[], None], *, timeline: bool = False) -> Timed:
    """Capture from before `work` begins until it is done."""
    plan = WindowPlan(sample_time_ns=LASTS_NS)
    opened_ns: list[int] = []
    with before_others(), interrupting(work) as worker:

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
