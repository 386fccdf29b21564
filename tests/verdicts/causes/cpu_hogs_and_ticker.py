"""Three hogs have the CPU, and one that runs 20 us a millisecond often had it last."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.verdicts.staging import CPU, hog, running, spin, tell
from tests.verdicts.truth import Staged, cause

RUNS_S, EVERY_S = 20e-6, 1e-3


def ticker() -> None:
    tell()
    while True:
        spin(RUNS_S)
        time.sleep(EVERY_S)


@contextmanager
def stage() -> Iterator[Staged]:
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(running(hog, name="hog", cpu=CPU))
        tick = stack.enter_context(running(ticker, name="ticker", cpu=CPU))
        victim = stack.enter_context(running(hog, cpu=CPU))
        yield Staged(
            victim.pid,
            cause("cpu_contention", names=("hog (",), innocent=(tick.pid,), also=("user_work",)),
        )
