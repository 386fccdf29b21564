"""A crowd shares its CPU, of which none has much."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import Staged, cause

CROWD = 14


@contextmanager
def stage() -> Iterator[Staged]:
    with ExitStack() as stack:
        for _ in range(CROWD):
            stack.enter_context(running(hog, name="hog", cpu=CPU))
        victim = stack.enter_context(running(hog, cpu=CPU))
        truth = cause("cpu_contention", names=("tasks called hog",), also=("user_work",))
        yield Staged(victim.pid, truth)
