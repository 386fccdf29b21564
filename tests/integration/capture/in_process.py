"""Captures in the tests' own process, around what they do."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernel_delay.analysis.verdict import judge
from kernel_delay.capture.plan import MOST_SLICES, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample


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


def measured(pid: int, work: Callable[[], None], *, timeline: bool = False) -> Sample:
    """Capture from before `work` begins until it is done."""
    plan = WindowPlan(sample_time_ns=60 * 10**9)
    with interrupting(work) as worker:
        options = SessionOptions(
            on_open=lambda epoch: worker.start(), timeline=MOST_SLICES if timeline else None
        )
        with Session(find_target(pid), plan, options) as session:
            (sample,) = map(judge, session.samples())
    return sample
