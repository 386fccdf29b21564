"""Files that all have one name, and a number each: eventfds, and the ends of pseudo-terminals."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from kernel_delay.host.file_status import file_status
from kernel_delay.host.proc_text import read_lines

EVENTFD = "anon_inode:[eventfd]"
"""What an eventfd is called (fs/eventfd.c, 5.14 to 6.18)."""

DEVICES = ("/dev/", "/ptmx")
"""What the paths of pseudo-terminals begin with; the second where its folder is out of sight."""

# include/uapi/linux/major.h: TTYAUX_MAJOR, UNIX98_PTY_SLAVE_MAJOR
_MASTER = os.makedev(5, 2)
_SLAVES = 136

_MOST_BYTES = 4096


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
        found = read_number(path, link)
        return (
            found is not None
            and (found.kind, found.number) == (self.kind, self.number)
            and (self.kind == "eventfd" or bool(found.filesystems & self.filesystems))
        )

    @property
    def link(self) -> str:
        """What its link in /proc/PID/fd begins with."""
        return EVENTFD if self.kind == "eventfd" else DEVICES[0]

    @property
    def other_end(self) -> "Numbered":
        """That of a pseudo-terminal. An eventfd is read and written by all that have it."""
        if self.kind == "eventfd":
            return self
        return self._replace(kind="slave" if self.kind == "master" else "master")


def read_number(path: str, link: str) -> Numbered | None:
    """Return which such file a descriptor is of; None if it is another one, or is gone.

    Args:
        path: Its link in /proc/PID/fd.
        link: What that shows.
    """
    if link == EVENTFD:
        # fs/eventfd.c:eventfd_show_fdinfo(), 5.14 to 6.18
        number = _number(path, "eventfd-id")
        return None if number is None else Numbered("eventfd", number)
    if not link.startswith(DEVICES):
        return None
    with suppress(OSError):
        status = file_status(path)
        if not stat.S_ISCHR(status.mode):
            return None
        if os.major(status.device) == _SLAVES:
            # drivers/tty/pty.c:unix98_pty_init(), 5.14 to 6.18: a minor each.
            number, filesystems = os.minor(status.device), {status.filesystem}
            return Numbered("slave", number, frozenset(filesystems))
        # drivers/tty/pty.c:pty_show_fdinfo(), 5.14 to 6.18
        number = _number(path, "tty-index") if status.device == _MASTER else None
        if number is not None:
            return Numbered("master", number, frozenset({status.filesystem, *_beside(path, link)}))
    return None


def _number(path: str, key: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in read_lines(Path(path.replace("/fd/", "/fdinfo/")), _MOST_BYTES):
            name, _, value = line.partition(":")
            if name == key:
                return int(value)
    return None


def _beside(path: str, link: str) -> set[int]:
    """The file system of the slaves of a master that is in another one.

    The kernel takes what is mounted at `pts` beside it (fs/devpts/inode.c:devpts_mntget(), 5.14 to
    6.18).
    """
    process = path.partition("/fd/")[0]
    with suppress(OSError):
        return {file_status(f"{process}/root{os.path.dirname(link)}/pts").device}
    return set()
