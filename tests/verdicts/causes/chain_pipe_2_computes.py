"""It waits by pipes for the last of two processes, which computes."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.relays import staged
from tests.verdicts.truth import Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with staged("pipe", 2, "computes") as relays:
        yield relays
