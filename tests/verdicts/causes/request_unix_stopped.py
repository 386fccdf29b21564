"""It waits on a Unix socket for a server that a signal stopped."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import by_unix
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with by_unix() as asking:
        asking.stop_server()
        names = (asking.server.pid, "was stopped")
        yield Staged(asking.client.pid, cause("wait_socket_receive", names=names))
