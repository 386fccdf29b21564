"""It waits for the answers of a server that computes, by pipes."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import by_pipe
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with by_pipe() as asking:
        names = (asking.server.pid, "waited for the pipe from")
        yield Staged(asking.client.pid, cause("wait_pipe", names=names))
