"""Files that all have one name, and a number each: eventfds, and the ends of pseudo-terminals."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from kernel_delay.host.file_status import FileStatus, file_status
from kernel_delay.host.proc_text import read_bytes, read_lines, read_number
from kernel_delay.host.target import PROC

EVENTFD = "anon_inode:[eventfd]"
"""What an eventfd is called (fs/eventfd.c, 5.14 to 6.18)."""

TERMINAL = "pseudo-terminal"
"""What file_name() calls both ends of all of them."""

# How the paths of terminals end, beside a number.
_NAMES = ("ptmx", "tty", "console")

# include/uapi/linux/major.h: TTYAUX_MAJOR, UNIX98_PTY_SLAVE_MAJOR
_OWN_TERMINAL, _MASTER = os.makedev(5, 0), os.makedev(5, 2)
_SLAVES = 136

_MOST_BYTES = 4096

# Of the mounts of a process.
_MOST_MOUNT_BYTES = 1 << 20


class Numbered(NamedTuple):
    """Which file it is.

    Attributes:
        kind: What it is. "master": the end of a pseudo-terminal that a terminal emulator or sshd
            has; "slave": that of the programs within, as /dev/pts/3 (pty(7)).
        number: Its number. The ends of a pseudo-terminal have the same.
        filesystems: The devices of the file systems that the slave may be in, as each container has
            its own with numbers of its own. None of an eventfd.
    """

    kind: Literal["eventfd", "master", "slave"]
    number: int
    filesystems: frozenset[int] = frozenset()

    def is_at(self, path: str, link: str) -> bool:
        """Whether a descriptor of /proc/PID/fd is of this; `link` is what it shows."""
        found = find_numbered(path, link)
        return (
            found is not None
            and (found.kind, found.number) == (self.kind, self.number)
            and (self.kind == "eventfd" or bool(found.filesystems & self.filesystems))
        )

    @property
    def name(self) -> str:
        """What file_name() returns for its links."""
        return EVENTFD if self.kind == "eventfd" else TERMINAL

    @property
    def other_end(self) -> "Numbered":
        """That of a pseudo-terminal. An eventfd is read and written by all that have it."""
        if self.kind == "eventfd":
            return self
        return self._replace(kind="slave" if self.kind == "master" else "master")


def file_name(link: str) -> str:
    """Return a link of /proc/PID/fd, or one name for all that may be of a pseudo-terminal."""
    last = link.rpartition("/")[2]
    return TERMINAL if link[:1] == "/" and (last.isdecimal() or last in _NAMES) else link


def find_numbered(path: str, link: str) -> Numbered | None:
    """Return which such file a descriptor is of; None if it is another one, or is gone.

    Args:
        path: Its link in /proc/PID/fd.
        link: What that shows.
    """
    if link == EVENTFD:
        # fs/eventfd.c:eventfd_show_fdinfo(), 5.14 to 6.18
        number = _field(path, "eventfd-id")
        return None if number is None else Numbered("eventfd", number)
    if file_name(link) != TERMINAL:
        return None
    with suppress(OSError, ValueError, IndexError):
        status = file_status(path)
        return _terminal(path, status) if stat.S_ISCHR(status.mode) else None
    return None


def _terminal(path: str, status: FileStatus) -> Numbered | None:
    process = path.partition("/fd/")[0]
    if os.major(status.device) == _SLAVES:
        # drivers/tty/pty.c:unix98_pty_init(), 5.14 to 6.18: a minor each.
        return Numbered("slave", os.minor(status.device), frozenset({status.filesystem}))
    if status.device == _OWN_TERMINAL:
        # proc_pid_stat(5): the seventh field.
        device = int(read_bytes(f"{process}/stat").rpartition(b")")[2].split()[4])
        if os.major(device) == _SLAVES:
            return Numbered("slave", os.minor(device), _mounted(process))
    # drivers/tty/pty.c:pty_show_fdinfo(), 5.14 to 6.18
    number = _field(path, "tty-index") if status.device == _MASTER else None
    if number is None:
        return None
    mount = _field(path, "mnt_id")
    # It was opened in the mount namespace that the process has now, or in ours before that.
    beside = _mounted(process, mount) or _mounted(str(PROC / "self"), mount)
    return Numbered("master", number, beside | {status.filesystem})


def _field(path: str, key: str) -> int | None:
    """The number that fdinfo has for a descriptor."""
    with suppress(OSError, ValueError):
        return read_number(path.replace("/fd/", "/fdinfo/"), key, _MOST_BYTES)
    return None


def _mounted(process: str, parent: int | None = None) -> frozenset[int]:
    """The file systems of slaves that a process sees: those mounted at `pts` in one mount, or all.

    The kernel takes for a master what is mounted beside it (fs/devpts/inode.c:devpts_mntget(), 5.14
    to 6.18). To look a path up there could take as long as somebody's FUSE server likes.
    """
    found: dict[str, int] = {}
    for line in read_lines(Path(process, "mountinfo"), _MOST_MOUNT_BYTES):
        # proc_pid_mountinfo(5)
        mount, _, rest = line.partition(" - ")
        number, within, device, _, point, *_ = mount.split()
        if rest.partition(" ")[0] != "devpts":
            continue
        # What is mounted on it hides it.
        is_above = found.pop(within, None) is not None
        if is_above or parent is None or (int(within) == parent and point.endswith("/pts")):
            major, _, minor = device.partition(":")
            found[number] = os.makedev(int(major), int(minor))
    return frozenset(found.values())
