"""It has all file systems written back, to which another process writes all the time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.verdicts.causes.fsync_others import writer
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause


def victim() -> None:
    tell()
    while True:
        os.sync()


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        TemporaryDirectory(dir="/var/tmp") as folder,
        running(writer, folder, name="writer"),
        running(victim) as process,
    ):
        yield Staged(
            process.pid,
            cause(
                "wait_disk",
                "wait_page_cache",
                also=("kernel_sleep", "wait_kernel_lock", "kernel_work"),
            ),
        )
