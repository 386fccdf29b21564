"""It waits for a child that computes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, spin, tell
from tests.verdicts.truth import Staged, cause

COMPUTES_S = 0.03


def victim() -> None:
    tell()
    while True:
        child = os.fork()
        if not child:
            spin(COMPUTES_S)
            os._exit(0)
        os.waitpid(child, 0)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        # To fork takes time, and so does each page that is written after it: a good part of it on
        # an emulated CPU.
        yield Staged(process.pid, cause("wait_child", also=("kernel_work", "page_faults")))
