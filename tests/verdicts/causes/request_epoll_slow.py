"""It waits in epoll for two servers: one of them computes for longer than half of a window."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import PAUSE_S, by_epoll
from tests.verdicts.truth import Staged, cause

ANSWER_S = 0.3


@contextmanager
def stage() -> Iterator[Staged]:
    with by_epoll(ANSWER_S, PAUSE_S) as (asking, other):
        names = (asking.server.pid, "It is the client")
        truth = cause("wait_epoll", names=names, innocent=(other.pid,))
        yield Staged(asking.client.pid, truth)
