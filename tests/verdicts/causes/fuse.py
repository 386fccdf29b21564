"""It reads a file of a FUSE file system, whose server takes its time."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.verdicts import fuse
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

ANSWERS_AFTER_S = 0.02


def server(folder: str) -> None:
    try:
        device = fuse.mounted(folder)
    except NotHereError as error:
        tell(refused=str(error))
        return
    tell()
    while True:
        request = fuse.next_request(device)
        if request.operation == fuse.READ:
            time.sleep(ANSWERS_AFTER_S)
        fuse.reply(device, request)


def victim(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    tell()
    while True:
        os.pread(file, 1, 0)


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        try:
            with (
                running(server, folder, name="server") as other,
                running(victim, f"{folder}/file") as process,
            ):
                yield Staged(process.pid, cause("wait_fuse", names=(other.pid,)))
        finally:
            fuse.unmount(folder)
