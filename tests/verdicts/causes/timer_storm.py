"""A profiler interrupts it every 20 us."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import installed
from tests.verdicts.staging import hog, program, running
from tests.verdicts.truth import Staged, cause

EVERY_NS = 20_000

# perf(1) has its events by then.
STARTS_S = 1.0


@contextmanager
def stage() -> Iterator[Staged]:
    with running(hog) as victim:
        perf = (installed("perf"), "record", "-q", "-o", "/dev/null", "-e", "cpu-clock")
        with program(*perf, "-c", EVERY_NS, "-p", victim.pid, tells=False):
            time.sleep(STARTS_S)
            yield Staged(victim.pid, cause("interrupt_load", "doubtful_user", also=("user_work",)))
