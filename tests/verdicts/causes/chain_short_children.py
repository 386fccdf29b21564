"""It runs a shell for each piece of its work, whose child sleeps: neither is there for long."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.emulation import is_emulated
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

# An emulated CPU takes a tenth of a second for a program to begin.
SLEEPS_S = 0.4 if is_emulated() else 0.03


def victim() -> None:
    tell()
    while True:
        subprocess.run(("sh", "-c", f"sleep {SLEEPS_S}; :"), check=True)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        truth = cause("wait_chain", names=("several processes named sleep", "slept on a timer"))
        yield Staged(process.pid, truth, options=("--chains",))
