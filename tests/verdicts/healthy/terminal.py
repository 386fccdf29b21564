"""It reads lines that somebody types in a terminal now and then."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged

EVERY_S = 0.1


def emulator() -> None:
    pid, master = os.forkpty()
    while not pid:
        os.read(0, 100)
    tell(program=pid)
    while True:
        time.sleep(EVERY_S)
        os.write(master, b"line\n")


@contextmanager
def stage() -> Iterator[Staged]:
    with running(emulator, name="emulator") as process:
        yield Staged(process.reported["program"], HEALTHY)
