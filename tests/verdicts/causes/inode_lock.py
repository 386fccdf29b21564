"""Another process keeps the lock of the file that it writes to (its inode's) most of the time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

MUCH = 8 << 20


def writes_much(path: str) -> None:
    file = os.open(path, os.O_WRONLY)
    much = bytes(MUCH)
    tell()
    while True:
        os.pwrite(file, much, 0)


def victim(path: str) -> None:
    file = os.open(path, os.O_WRONLY)
    tell()
    while True:
        os.pwrite(file, b"x", 0)


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory(dir="/var/tmp") as folder:
        path = f"{folder}/file"
        with (
            open(path, "xb"),
            running(writes_much, path, name="other") as other,
            running(victim, path) as process,
        ):
            # The disk has part in it where much was written, and both want CPUs.
            truth = cause(
                "wait_kernel_lock",
                "kernel_sleep",
                names=("other", other.pid),
                also=("cpu_contention", "wait_disk", "wait_page_cache", "kernel_work"),
            )
            yield Staged(process.pid, truth)
