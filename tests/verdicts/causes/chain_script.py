"""A script: it runs three programs one after the other, and none of them is half of its time."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

# They are about as fast.
PROGRAMS = ("md5sum", "sha1sum", "b2sum")

BYTES = 16 << 20


def victim() -> None:
    data = bytes(BYTES)
    tell()
    while True:
        for program in PROGRAMS:
            subprocess.run((program,), input=data, stdout=subprocess.DEVNULL, check=True)


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        truth = cause("wait_chain_several", names=PROGRAMS)
        yield Staged(process.pid, truth, options=("--chains",))
