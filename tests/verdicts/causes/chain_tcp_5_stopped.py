"""It waits by TCP on loopback for the last of five processes, which is stopped by a signal."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.relays import staged
from tests.verdicts.truth import Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with staged("tcp", 5, "stopped") as relays:
        yield relays
