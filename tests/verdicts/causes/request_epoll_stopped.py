"""It waits in epoll for two servers: one of them, which it has asked, was stopped by a signal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.requests import ANSWER_S, PAUSE_S, by_epoll
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with by_epoll(pause_s=PAUSE_S) as (asking, other):
        asking.stop_server()
        # Until it has asked once more.
        time.sleep(2 * (ANSWER_S + PAUSE_S))
        names = (asking.server.pid, "was stopped")
        truth = cause("wait_epoll", names=names, innocent=(other.pid,))
        yield Staged(asking.client.pid, truth)
