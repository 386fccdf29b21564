"""It forks all the time, and has much memory to copy the tables of."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

MEMORY = 256 << 20


def victim() -> None:
    memory = bytearray(MEMORY)
    for at in range(0, MEMORY, 4096):
        memory[at] = 1
    tell()
    while True:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(
            process.pid,
            cause(
                "kernel_work",
                names=("clone",),
                also=("wait_child", "page_faults", "doubtful_user", "interrupt_load"),
            ),
        )
