"""Another thread of a Python program computes for it, in C code that needs no interpreter."""

import concurrent.futures
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

# hashlib gives the interpreter's lock away meanwhile; that takes some milliseconds.
DATA = bytes(1 << 20)


def hashes() -> None:
    hashlib.sha256(DATA).digest()


def victim() -> None:
    pool = concurrent.futures.ThreadPoolExecutor(1)
    tell()
    while True:
        pool.submit(hashes).result()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        truth = cause("wait_futex", also=("user_work",), innocent=("GIL",), acquits=True)
        yield Staged(process.pid, truth)
