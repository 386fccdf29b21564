"""It has crashed, and its memory is written to a core dump."""

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.staging import START_S, running, tell
from tests.verdicts.truth import NotHereError, Staged, cause

MEMORY = 4 << 30


def victim(folder: str) -> None:
    import mmap
    import threading

    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    memory = mmap.mmap(-1, MEMORY)
    for at in range(0, MEMORY, mmap.PAGESIZE):
        memory[at] = 1
    threading.Thread(target=time.sleep, args=(1000,)).start()
    tell()
    signal.pause()


def wait_until_dumping(pid: int) -> None:
    """Wait until the kernel writes the dump, which it may be told not to, or not here."""
    deadline = time.monotonic() + START_S
    status = Path(f"/proc/{pid}/status")
    while "CoreDumping:\t1" not in status.read_text():
        if "State:\tZ" in status.read_text() or time.monotonic() > deadline:
            raise NotHereError("no core is dumped here")
        time.sleep(0.01)


@contextmanager
def stage() -> Iterator[Staged]:
    if not Path("/proc/sys/kernel/core_pattern").read_text().startswith("core"):
        raise NotHereError("core dumps go elsewhere than to a file")
    with (
        TemporaryDirectory(dir="/var/tmp") as folder,
        running(victim, folder) as process,
    ):
        os.kill(process.pid, signal.SIGSEGV)
        wait_until_dumping(process.pid)
        truth = cause(
            "wait_core_dump",
            "doubtful_user",
            "kernel_work",
            names=("core dump",),
            also=("wait_page_cache", "wait_disk"),
        )
        yield Staged(process.pid, truth)
