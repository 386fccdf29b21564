"""The descriptors that a thread waits for in a call that waits for several."""

import struct
from pathlib import Path

from kernel_delay.host.syscalls import syscall_name
from kernel_delay.host.target import PROC

EPOLLS = frozenset(("epoll_wait", "epoll_pwait", "epoll_pwait2"))
POLLS = frozenset(("poll", "ppoll"))

# Whoever waits for more has many peers.
MOST_WATCHED = 64

# struct pollfd of poll(2)
_POLLFD = struct.Struct("ihh")


def watched_by_epoll(process: Path, fd: int) -> list[int]:
    """Return the descriptors that an epoll one watches. `process` is as /proc/123."""
    try:
        text = (process / "fdinfo" / str(fd)).read_text(errors="replace")
    except OSError:
        return []
    # "tfd: 5 events: …" (fs/eventpoll.c:ep_show_fdinfo(), 5.14 to 6.18).
    lines = (line.split() for line in text.splitlines())
    return [int(words[1]) for words in lines if words[:1] == ["tfd:"] and len(words) > 1]


def watched_now(pid: int, tid: int) -> list[int]:
    """Return what a thread waits for now in a poll; nothing where it does not, or for too many."""
    process = PROC / str(pid)
    try:
        words = (process / "task" / str(tid) / "syscall").read_text().split()
        name = syscall_name(int(words[0])) if len(words) > 2 else None
        if name in EPOLLS:
            found = watched_by_epoll(process, int(words[1], 16))
            return found if len(found) <= MOST_WATCHED else []
        count = int(words[2], 16) if name in POLLS else 0
        if not 0 < count <= MOST_WATCHED:
            return []
        with (process / "mem").open("rb") as memory:
            memory.seek(int(words[1], 16))
            read = memory.read(count * _POLLFD.size)
    except (OSError, ValueError, OverflowError):
        return []
    whole = read[: len(read) // _POLLFD.size * _POLLFD.size]
    return [fd for fd, _, _ in _POLLFD.iter_unpack(whole) if fd >= 0]
