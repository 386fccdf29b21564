"""Who has the file lock that a process waits for: /proc/locks of proc(5)."""

from pathlib import Path

from kernel_delay.host.target import read_comm

PROC = Path("/proc")


def lock_holder(pid: int) -> tuple[str, int] | None:
    """Return the name and PID of who has the lock that process `pid` waits for now.

    None if it waits for none, or the kernel does not tell who has it, as with locks of open
    files (F_OFD_SETLK) and those of other PID namespaces.
    """
    try:
        lines = (PROC / "locks").read_text().splitlines()
    except OSError:
        return None
    holder = 0
    for line in lines:
        # NUMBER: [->] KIND MODE ACCESS PID FILE FROM TO; who waits stands below who has it.
        words = line.split()
        waits = "->" in words
        words = [word for word in words if word != "->"]
        if len(words) < 5 or not words[4].lstrip("-").isdecimal():
            continue
        if not waits:
            holder = int(words[4])
        elif int(words[4]) == pid and holder > 0:
            return _named(holder)
    return None


def _named(pid: int) -> tuple[str, int] | None:
    try:
        return read_comm(PROC / str(pid)), pid
    except OSError:
        return None
