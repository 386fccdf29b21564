"""The memory limit of its cgroup is so low that what it writes must leave memory at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

LIMIT = 12 * 1024 * 1024
BLOCK = 1024 * 1024
BLOCKS = 64


def victim() -> None:
    block = bytes(BLOCK)
    with TemporaryFile(dir="/var/tmp", buffering=0) as file:
        tell()
        while True:
            for _ in range(BLOCKS):
                file.write(block)
            # Its pages were paid for by a cgroup: new ones are by the one it is in now.
            file.seek(0)
            file.truncate()


@contextmanager
def stage() -> Iterator[Staged]:
    limit = {"memory__limit_in_bytes": LIMIT}
    with (
        cgroup(controller("memory"), **limit) as group,
        running(victim) as process,
    ):
        join(group, process.pid)
        yield Staged(
            process.pid,
            cause(
                "wait_reclaim",
                also=("wait_page_cache", "wait_disk", "kernel_work", "kernel_sleep"),
            ),
        )
