"""A debugger has stopped it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import hog, program, running, wait_until_traced
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with running(hog) as victim:
        command = ("gdb", "-nx", "-q", "-batch", "-p", victim.pid, "-ex", "shell sleep 100")
        with program(*command, tells=False) as gdb:
            wait_until_traced(victim.pid)
            yield Staged(victim.pid, cause("stopped", names=("gdb", gdb.pid)))
