"""It waits by Unix sockets for the last of four processes, which is stopped by a signal."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.relays import staged
from tests.verdicts.truth import Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with staged("unix", 4, "stopped") as relays:
        yield relays
