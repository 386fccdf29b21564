"""It waits by a pipe for a server that a signal stopped."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import by_pipe
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with by_pipe() as asking:
        asking.stop_server()
        names = (asking.server.pid, "was stopped")
        yield Staged(asking.client.pid, cause("wait_pipe", names=names))
