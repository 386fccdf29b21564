"""Who has the file lock that a process waits for: /proc/locks of proc(5)."""

from contextlib import suppress
from pathlib import Path

from kernel_delay.host.target import read_comm

PROC = Path("/proc")


def lock_owner(pid: int) -> tuple[str, int] | None:
    """Return the name and PID of who has the lock that process `pid` waits for now.

    None if it waits for none, or the kernel does not tell who has it, as with locks of open
    files (F_OFD_SETLK), those of other PID namespaces, and those that whoever took them left
    to a child: a PID is named only while its process has the file open.
    """
    try:
        lines = (PROC / "locks").read_text().splitlines()
    except OSError:
        return None
    owner = 0
    for line in lines:
        # NUMBER: [->] KIND MODE ACCESS PID DEVICE:INODE FROM TO; who waits is below who has it.
        words = line.split()
        waits = "->" in words
        words = [word for word in words if word != "->"]
        if len(words) < 6 or not words[4].lstrip("-").isdecimal():
            continue
        if not waits:
            owner = int(words[4])
        elif int(words[4]) == pid and owner > 0:
            return _named(owner, inode=words[5].rpartition(":")[2])
    return None


def _named(pid: int, inode: str) -> tuple[str, int] | None:
    process = PROC / str(pid)
    try:
        return (read_comm(process), pid) if inode in _open_inodes(process) else None
    except OSError:
        return None


def _open_inodes(process: Path) -> set[str]:
    """Of all files that it has open: without their devices, which stat(2) may number anew."""
    inodes = set()
    for file in (process / "fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.add(str(file.stat().st_ino))
    return inodes
