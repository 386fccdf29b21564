"""It waits for the answers of a server that computes, on a Unix socket."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import by_unix
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with by_unix() as asking:
        names = (asking.server.pid, "It is the client")
        yield Staged(asking.client.pid, cause("wait_socket_receive", names=names))
