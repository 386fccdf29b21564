"""What a file descriptor is of: /proc/PID/fd."""

import os
import stat
from typing import NamedTuple

from kernel_delay.model import FileKind

# The inode's number as the programs have it.
INODE_MASK = 0xFFFFFFFF

# fs/eventfd.c, fs/eventpoll.c: what the links are called.
_ANONYMOUS: dict[str, FileKind] = {
    "anon_inode:[eventfd]": "eventfd",
    "anon_inode:[eventpoll]": "epoll",
}

# The attribute that each socket has (net/socket.c:sockfs_xattr_get(), 5.14 to 6.18).
_PROTOCOL = "system.sockprotoname"

# struct proto's names: net/ipv4, net/ipv6, net/unix.
_PROTOCOLS: dict[str, FileKind] = {
    "TCP": "tcp",
    "TCPv6": "tcp",
    "UDP": "udp",
    "UDPv6": "udp",
    "UNIX": "unix",
    "UNIX-STREAM": "unix",
}


class Descriptor(NamedTuple):
    """What a descriptor is of.

    `link` is what /proc shows. `writes`: it is open for writing; `reads`: for reading.
    """

    kind: FileKind
    link: str
    inode: int
    reads: bool
    writes: bool


def describe(pid: int, tid: int, fd: int, inode: int) -> Descriptor | None:
    """Return what the thread's descriptor is of; None unless it is still of that inode."""
    path = f"/proc/{pid}/task/{tid}/fd/{fd}"
    try:
        now = os.stat(path)
        link = os.readlink(path)
        reads, writes = access(path)
    except OSError:
        return None
    if now.st_ino & INODE_MASK != inode:
        return None
    kind = _kind(path, link, now.st_mode)
    return Descriptor(kind, link, now.st_ino, reads, writes)


def access(path: str) -> tuple[bool, bool]:
    """Return whether a descriptor is open for reading, and for writing; OSError if it is gone.

    `path` is its link in /proc/PID/fd, which has the mode of the file
    (fs/proc/fd.c:tid_fd_update_inode(), 5.14 to 6.18).
    """
    mode = os.lstat(path).st_mode
    return bool(mode & stat.S_IRUSR), bool(mode & stat.S_IWUSR)


def _kind(path: str, link: str, mode: int) -> FileKind:
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return _PROTOCOLS.get(_protocol(path), "socket")
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return "file"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "device"
    return _ANONYMOUS.get(link, "other")


def _protocol(path: str) -> str:
    try:
        return os.getxattr(path, _PROTOCOL).decode().rstrip("\0")
    except OSError:
        return ""
