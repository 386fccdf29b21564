"""Who serves a FUSE file system: fdinfo of proc_pid_fdinfo(5)."""

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kernel_delay.host.open_files import MOST_CPU_S, links, processes

DEVICE = "/dev/fuse"


def fuse_server(device: int, likely: Iterable[int] = ()) -> int | None:
    """Return the process that serves the FUSE file system of a device, by the kernel's number.

    The processes in `likely` are looked at first. None if several do, no process is seen to do so,
    or the kernel does not show it, as before Linux 6.16.
    """
    found = []
    end_s = time.thread_time() + MOST_CPU_S
    for pid in processes(likely):
        if time.thread_time() > end_s:
            return None
        if any(link == DEVICE and _connection(path) == device for path, link in links(pid)):
            found.append(pid)
    return found[0] if len(found) == 1 else None


def _connection(path: str) -> int | None:
    """Of a descriptor, the device of the file system that it serves."""
    with suppress(OSError, ValueError):
        for line in Path(path.replace("/fd/", "/fdinfo/")).read_text().splitlines():
            # fs/fuse/dev.c:fuse_dev_show_fdinfo()
            key, _, value = line.partition(":")
            if key == "fuse_connection":
                return int(value)
    return None
