"""Which files are supplied by a process, that of a FUSE file system, and not by the kernel alone.

Whoever looks up such a file, asks for its attributes or reads it waits for that process: open(2),
stat(2) and statfs(2) do. A descriptor of O_PATH of what was found by others, as /proc/PID/map_files
has it, asks nobody.
"""

import os
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kernel_delay.host.file_status import file_status
from kernel_delay.host.proc_text import read_bytes, read_number

# Of a table of mounts; a node of Kubernetes has some 300 KiB.
_MOST_BYTES = 16 << 20

MOST_CPU_S = 1.0
"""How much CPU time it may take to look at mounts: any user may have any number of them."""

MOST_MOUNTS = 64
"""Of one process, those that are looked at."""

_SELF = Path("/proc/self")


class _FileSystem(NamedTuple):
    """Its device, and its type: proc_pid_mountinfo(5)."""

    device: bytes
    kind: bytes


class Mounts:
    """The mounts that files of one process are on.

    A mount's number, like a device's, is free for another one after its end: each that is known is
    held.
    """

    def __init__(self, process: Path) -> None:
        """Know none yet. `process` is a directory such as /proc/123; another one has no mounts."""
        self._process = process
        self._served: dict[int, tuple[int, bool]] = {}
        self._left_s = MOST_CPU_S

    def close(self) -> None:
        """Hold them no longer."""
        for held, _ in self._served.values():
            os.close(held)
        self._served.clear()

    def is_served(self, fd: int) -> bool:
        """Whether a process supplies an open file, which may be open by O_PATH alone.

        So it is where that is not known: for a file of a mount that neither this process nor that
        one sees, or of one more than there is time or room to look at.
        """
        mount = _mount_of(fd)
        known = self._served.get(mount)
        if known is not None:
            return known[1]
        if self._left_s <= 0 or len(self._served) >= MOST_MOUNTS:
            return True
        started_s = time.thread_time()
        # While it is open no other mount has that number.
        held, is_served = os.dup(fd), self._find(mount, fd)
        self._served[mount] = held, is_served
        self._left_s -= time.thread_time() - started_s
        return is_served

    def _find(self, mount: int, fd: int) -> bool:
        # This program itself is there.
        if mount == _mount_of_root():
            return False
        own = _table(_SELF)
        found = own.get(mount)
        if found is None:
            found = _table(self._process).get(mount)
            if found is not None and found.kind == b"overlay" and _has_other_users(self._process):
                # One that this process does not see may have been mounted there, by a user, upon a
                # FUSE file system: user_namespaces(7).
                return found not in own.values()
        if found is not None:
            return found.kind.partition(b".")[0] in (b"fuse", b"fuseblk")
        try:
            return file_status(f"/proc/self/fd/{fd}").device != _memory_device()
        except OSError:
            return True


def _mount_of(fd: int) -> int:
    """The number of the mount of an open file; proc_pid_fdinfo(5). The kernel asks nobody."""
    mount = read_number(_SELF / "fdinfo" / str(fd), "mnt_id")
    if mount is None:
        raise OSError(0, "the kernel does not show its mount")
    return mount


def _mount_of_root() -> int:
    fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        return _mount_of(fd)
    finally:
        os.close(fd)


def _table(process: Path) -> dict[int, _FileSystem]:
    """The mounts that a process sees, by their numbers; none if it has none."""
    try:
        content = read_bytes(process / "mountinfo", _MOST_BYTES)
    except OSError:
        return {}
    table = {}
    for line in content.split(b"\n"):
        mount, _, kind = line.partition(b" - ")
        words = mount.split(b" ", 3)
        if len(words) > 3 and words[0].isdigit():
            table[int(words[0])] = _FileSystem(words[2], kind.partition(b" ")[0])
    return table


def _has_other_users(process: Path) -> bool:
    try:
        own, other = (os.stat(each / "ns/user").st_ino for each in (_SELF, process))
    except OSError:
        return True
    return own != other


@cache
def _memory_device() -> int:
    """That of files in memory alone, as memfd_create(2) makes them. Their mount has no place."""
    fd = os.memfd_create("device", os.MFD_CLOEXEC)
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)
