"""It waits by Unix sockets for the last of three processes, which computes."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.relays import staged
from tests.verdicts.truth import Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with staged("unix", 3, "computes") as relays:
        yield relays
