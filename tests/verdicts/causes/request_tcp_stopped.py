"""It waits by TCP on loopback for a server that a signal stopped."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import by_tcp
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with by_tcp() as asking:
        asking.stop_server()
        names = (asking.server.pid, "was stopped")
        yield Staged(asking.client.pid, cause("wait_socket_receive", names=names))
