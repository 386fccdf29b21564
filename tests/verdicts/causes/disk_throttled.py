"""Its cgroup may read little from the disk (blkio's throttling)."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.files import BIG_FILE, big_file
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

BYTES_PER_S = 1 << 20
BLOCK = 64 << 10


def victim(path: str) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    block = mmap.mmap(-1, BLOCK)
    tell()
    while True:
        for at in range(0, BIG_FILE, BLOCK):
            os.preadv(file, [block], at)


def whole_disk(path: str) -> str:
    """The disk that the file is on, as MAJOR:MINOR."""
    device = os.stat(path).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    try:
        place = Path(f"/sys/dev/block/{name}").resolve(strict=True)
    except OSError as error:
        raise NotHereError(f"{path} is on no disk") from error
    return (place.parent / "dev").read_text().strip() if (place / "partition").exists() else name


@contextmanager
def stage() -> Iterator[Staged]:
    with big_file() as path:
        limit = {"blkio__throttle.read_bps_device": f"{whole_disk(path)} {BYTES_PER_S}"}
        with (
            cgroup(controller("blkio"), **limit) as group,
            running(victim, path) as process,
        ):
            join(group, process.pid)
            yield Staged(process.pid, cause("wait_disk"))
