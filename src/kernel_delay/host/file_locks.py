"""Who has the file lock that a process waits for: /proc/locks of proc(5)."""

from contextlib import suppress
from pathlib import Path

from kernel_delay.host.target import read_comm

PROC = Path("/proc")


def lock_owner(pid: int) -> tuple[str, int] | None:
    """Return the name and PID of who has the lock that process `pid` waits for now.

    None if it waits for none, or the kernel does not tell who has it, as with locks of open
    files (F_OFD_SETLK), those of other PID namespaces, and those that whoever took them left
    to a child: a PID is named only while one of its process's files has the lock.
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
            return _named(owner, file=words[5])
    return None


def _named(pid: int, file: str) -> tuple[str, int] | None:
    process = PROC / str(pid)
    try:
        return (read_comm(process), pid) if file in _locked_files(process) else None
    except OSError:
        return None


def _locked_files(process: Path) -> set[str]:
    """DEVICE:INODE of all files that it has open with a lock of its own.

    A line of fdinfo is "lock:", and then what /proc/locks has (fs/proc/fd.c, 5.14 to 6.18).
    """
    files = set()
    for file in (process / "fdinfo").iterdir():
        with suppress(FileNotFoundError):
            lines = (line.split() for line in file.read_text().splitlines())
            files |= {words[6] for words in lines if words[:1] == ["lock:"] and len(words) > 6}
    return files
