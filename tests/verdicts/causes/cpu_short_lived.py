"""Its CPU is used up by processes that end as soon as they have begun."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.verdicts.staging import CPU, hog, program, running
from tests.verdicts.truth import Staged, cause

LOOP = "while :; do /bin/true; done"
LOOPS = 3


@contextmanager
def stage() -> Iterator[Staged]:
    with ExitStack() as stack:
        for _ in range(LOOPS):
            stack.enter_context(program("sh", "-c", LOOP, cpu=CPU, tells=False))
        victim = stack.enter_context(running(hog, cpu=CPU))
        truth = cause("cpu_contention", names=("ran for",), also=("user_work", "interrupt_load"))
        yield Staged(victim.pid, truth)
