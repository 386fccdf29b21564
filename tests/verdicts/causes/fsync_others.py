"""Another process has the disk write all the time, and it creates and renames files meanwhile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

BLOCK = 1 << 20


def writer(folder: str) -> None:
    file = os.open(Path(folder) / "large", os.O_WRONLY | os.O_CREAT)
    tell()
    while True:
        for at in range(64):
            os.pwrite(file, os.urandom(BLOCK), at * BLOCK)
        os.fsync(file)


def victim(folder: str) -> None:
    tell()
    while True:
        new = Path(folder) / "new"
        file = os.open(new, os.O_WRONLY | os.O_CREAT)
        os.write(file, b"x")
        os.fsync(file)
        os.close(file)
        new.rename(Path(folder) / "small")


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        TemporaryDirectory(dir="/var/tmp") as folder,
        running(writer, folder, name="writer"),
        running(victim, folder) as process,
    ):
        yield Staged(
            process.pid,
            cause(
                "wait_disk",
                "wait_page_cache",
                also=("kernel_sleep", "wait_kernel_lock", "kernel_work"),
            ),
        )
