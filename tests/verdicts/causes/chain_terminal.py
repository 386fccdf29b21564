"""A log's reader waits for a program that writes to a terminal, which nobody reads.

The process that has the terminal is stopped: the root is two hops away.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.causes.terminal_stopped import LINE
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause


def emulator() -> None:
    reads, writes = os.pipe()
    program, master = os.forkpty()
    if not program:
        os.close(reads)
        while True:
            os.write(1, LINE)
            os.write(writes, LINE)
    os.close(writes)
    reader = os.fork()
    if not reader:
        os.close(master)
    while not reader:
        os.read(reads, len(LINE))
    os.close(reads)
    tell(reader=reader, program=program)
    signal.pause()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(emulator, name="emulator") as process:
        os.kill(process.pid, signal.SIGSTOP)
        truth = cause("wait_chain", names=(process.pid, "was stopped"))
        yield Staged(process.reported["reader"], truth, options=("--chains",))
