"""It waits to be told of changes of a folder, which another process seldom makes."""

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.staging import call_thread, running, tell
from tests.verdicts.truth import Staged, cause

EVERY_S = 0.02

# inotify(7)
IN_MODIFY = 2


def victim(folder: str) -> None:
    libc = ctypes.CDLL(None)
    reported = libc.inotify_init()
    libc.inotify_add_watch(reported, folder.encode(), IN_MODIFY)
    changer = os.fork()
    if not changer:
        call_thread("changer")
        file = Path(folder) / "file"
        while True:
            time.sleep(EVERY_S)
            file.write_text("changed")
    tell(by=changer)
    while True:
        os.read(reported, 4096)


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder, running(victim, folder) as process:
        yield Staged(process.pid, cause("wait_notification", names=(process.reported["by"],)))
