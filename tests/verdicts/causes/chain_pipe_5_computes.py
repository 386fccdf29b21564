"""It waits by pipes for the last of five processes, which computes."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.relays import staged
from tests.verdicts.truth import Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with staged("pipe", 5, "computes") as relays:
        yield relays
