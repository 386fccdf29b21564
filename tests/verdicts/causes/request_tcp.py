"""It waits for the answers of a server that computes, by TCP on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import by_tcp
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with by_tcp() as asking:
        names = (asking.server.pid, "It is the client")
        yield Staged(asking.client.pid, cause("wait_socket_receive", names=names))
