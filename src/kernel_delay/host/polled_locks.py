"""Who has the lock on a file that a process tries to lock again and again, without waiting."""

import os
import stat
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kernel_delay.formatting import encodable
from kernel_delay.host.file_locks import PROC, Lock, LockOwner, locker, own_locks, parsed
from kernel_delay.host.file_status import file_status
from kernel_delay.host.open_files import MOST_CPU_S, links, processes
from kernel_delay.host.proc_text import read_lines
from kernel_delay.host.target import read_comm, read_stat

# Of a process, files that are looked at.
MOST_FILES = 1024


class PolledLock(NamedTuple):
    """A lock on a file that a process has open too. `path` is what /proc shows of it."""

    path: str
    owner: LockOwner


def polled_lock(pid: int) -> PolledLock | None:
    """Return the lock of another process that keeps process `pid` from locking a file it has open.

    Locks for reading alone keep nobody from another one. None if there is no such file, or there
    are several, or who has the lock is not known.
    """
    try:
        listed = read_lines(PROC / "locks")
        own = set(own_locks(PROC / str(pid)))
    except OSError:
        return None
    # It inherited what they have open, as a PID file, and need not want to lock that.
    family = {pid, *_ancestors(pid)}
    of_file: dict[str, list[Lock]] = {}
    for line in listed:
        lock = parsed(line)
        if lock is not None and not lock.waits and lock not in own and lock.pid not in family:
            of_file.setdefault(lock.file, []).append(lock)
    writes = {lock.file for lock in own if lock.access == "WRITE"}
    contended = {
        file: next((lock for lock in locks if lock.access == "WRITE"), locks[0])
        for file, locks in of_file.items()
        if file in writes or any(lock.access == "WRITE" for lock in locks)
    }
    paths = _open_files(pid, contended) if contended else {}
    if len(paths) != 1:
        return None
    ((file, path),) = paths.items()
    owner = _owner(contended[file], path, pid)
    if owner is None or owner[1] in family:
        return None
    comm, owner_pid = owner
    return PolledLock(encodable(path), LockOwner(comm, owner_pid, len(of_file[file]) > 1))


def _ancestors(pid: int) -> Iterator[int]:
    with suppress(OSError):
        while pid > 1:
            pid = read_stat(pid).parent
            yield pid


def _open_files(pid: int, wanted: Container[str]) -> dict[str, str]:
    """The paths of those files, by DEVICE:INODE, that a process has open."""
    found = {}
    for path, link in islice(links(pid), MOST_FILES):
        with suppress(OSError):
            status = file_status(path)
            if stat.S_ISREG(status.mode):
                major, minor = os.major(status.device), os.minor(status.device)
                # fs/locks.c:lock_get_status()
                file = f"{major:02x}:{minor:02x}:{status.inode}"
                if file in wanted:
                    found[file] = link
    return found


def _owner(lock: Lock, path: str, asker: int) -> tuple[str, int] | None:
    """Who has a lock: by its PID, or else whoever has the file open with it, as by F_OFD_SETLK."""
    if lock.pid > 0 and (comm := locker(lock.pid, lock.file)) is not None:
        return comm, lock.pid
    end_s = time.thread_time() + MOST_CPU_S
    for pid in processes():
        if time.thread_time() > end_s:
            return None
        if pid != asker and any(link == path for _, link in links(pid)):
            with suppress(OSError):
                if lock in own_locks(PROC / str(pid)):
                    return read_comm(PROC / str(pid)), pid
    return None
