"""File systems that a process serves, by FUSE: which are, and who serves them."""

import time
from collections.abc import Iterable
from contextlib import suppress

from kernel_delay.host.open_files import MINOR_BITS, MOST_CPU_S, links, processes
from kernel_delay.host.proc_text import read_lines, read_number
from kernel_delay.host.target import PROC

# Of the mounts of a process.
_MOST_BYTES = 1 << 20


def is_fuse(pid: int, device: int) -> bool:
    """Return whether a device, by the kernel's number, is a FUSE file system that a process sees.

    proc_pid_mountinfo(5): behind the hyphen stands the type, of FUSE with the server's own.
    """
    wanted = f"{device >> MINOR_BITS}:{device & (1 << MINOR_BITS) - 1}"
    with suppress(OSError):
        for line in read_lines(PROC / str(pid) / "mountinfo", _MOST_BYTES):
            mount, _, rest = line.partition(" - ")
            if mount.split()[2:3] == [wanted]:
                return rest.partition(" ")[0].partition(".")[0] in ("fuse", "fuseblk")
    return False


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
        # fs/fuse/dev.c:fuse_dev_show_fdinfo()
        return read_number(path.replace("/fd/", "/fdinfo/"), "fuse_connection")
    return None
