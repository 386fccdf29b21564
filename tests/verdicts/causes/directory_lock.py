"""It makes and removes files in a folder in which others do so too."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

OTHERS = 6


def victim(folder: str) -> None:
    tell()
    path = f"{folder}/{os.getpid()}"
    while True:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        os.unlink(path)


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory(dir="/var/tmp") as folder, ExitStack() as stack:
        for _ in range(OTHERS):
            stack.enter_context(running(victim, folder, name="other"))
        process = stack.enter_context(running(victim, folder))
        yield Staged(
            process.pid,
            # It waits for CPUs as well: there are more processes than of these.
            cause(
                "kernel_sleep",
                "wait_kernel_lock",
                "cpu_contention",
                also=("kernel_work", "wait_disk", "wait_page_cache"),
            ),
        )
