"""It asks two servers by turns and waits in epoll: one of them computes, one answers at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import by_epoll
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with by_epoll() as (asking, other):
        names = (asking.server.pid, "It is the client")
        truth = cause("wait_epoll", names=names, innocent=(other.pid,))
        yield Staged(asking.client.pid, truth)
