"""It waits by pipes for the last of three processes, which is stopped by a signal."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.relays import staged
from tests.verdicts.truth import Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with staged("pipe", 3, "stopped") as relays:
        yield relays
