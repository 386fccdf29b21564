"""Who has the lock on a file that a process tries to lock again and again, without waiting."""

import os
import stat
from collections.abc import Container, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kernel_delay.formatting import encodable
from kernel_delay.host.file_locks import (
    MOST_FILES,
    PROC,
    Lock,
    LockOwner,
    all_locks,
    lockers,
    own_locks,
)
from kernel_delay.host.file_status import file_status
from kernel_delay.host.open_files import links
from kernel_delay.host.target import read_stat


class PolledLock(NamedTuple):
    """A lock on a file that a process has open too. `path` is what /proc shows of it."""

    path: str
    owner: LockOwner


def polled_lock(pid: int, kinds: Container[str]) -> PolledLock | None:
    """Return the lock of another process that keeps process `pid` from locking a file it has open.

    `kinds` are those of the locks that it asks for, as /proc/locks has them; others keep it from
    none, nor do locks for reading alone from another one. None if there is no such file, or there
    are several, or several processes have such locks on it, or who has the lock is not known.
    """
    try:
        return _polled_lock(pid, kinds)
    except OSError:
        return None


def _polled_lock(pid: int, kinds: Container[str]) -> PolledLock | None:
    """The same; OSError where there is more to look at than there is time for."""
    own = set(own_locks(PROC / str(pid)))
    of_file: dict[str, list[Lock]] = {}
    for lock in all_locks():
        if lock.kind in kinds and lock not in own and not lock.waits and lock.pid != pid:
            of_file.setdefault(lock.file, []).append(lock)
    writes = {lock.file for lock in own if lock.access == "WRITE"}
    contended = {
        file: found
        for file, found in of_file.items()
        if file in writes or any(lock.access == "WRITE" for lock in found)
    }
    paths = _open_files(pid, contended) if contended else {}
    if len(paths) != 1:
        return None
    ((file, path),) = paths.items()
    if len({lock.pid for lock in contended[file]}) > 1:
        return None
    owner = _owner(contended[file][0], pid)
    # It inherited what those have open, as a PID file, and need not want to lock that.
    if owner is None or owner[1] in _ancestors(pid):
        return None
    comm, owner_pid = owner
    return PolledLock(encodable(path), LockOwner(comm, owner_pid, shared=False))


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


def _owner(lock: Lock, asker: int) -> tuple[str, int] | None:
    """Who has a lock: whoever took it, or else the only one that has the open file.

    None if several processes have that open file: any of them may have locked it.
    """
    found = lockers(lock, asker)
    first = next(found, None)
    is_taker = first is not None and first[1] == lock.pid
    return None if not is_taker and any(found) else first
