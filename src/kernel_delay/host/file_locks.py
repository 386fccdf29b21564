"""Who has the file lock that a process waits for: /proc/locks of proc(5)."""

import errno
import math
import os
import time
from collections.abc import Container, Iterable, Iterator, Set
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kernel_delay.host.open_files import MOST_CPU_S, links, processes
from kernel_delay.host.proc_text import lines_of, read_lines, read_text
from kernel_delay.host.target import read_comm, read_stat

PROC = Path("/proc")

# Any user may have any number of locks, and the kernel goes through all of them for each page that
# is read (fs/locks.c:locks_start(), 5.14 to 6.18).
MOST_LIST_BYTES = 1 << 20

# Locks come before what else a file shows, as an epoll one does of all that it watches.
MOST_FILE_BYTES = 1 << 14

# That are waited for at a time, and whose owners are looked for.
MOST_LOCKS = 8

# Of a process, files that are looked at.
MOST_FILES = 1024

_OF_OFD = "OFDLCK"

# Those that belong to an open file, and not to a process.
_OF_OPEN_FILES = ("FLOCK", _OF_OFD)


class LockOwner(NamedTuple):
    """Who has a file lock. `shared`: others have it too."""

    comm: str
    pid: int
    shared: bool


class Lock(NamedTuple):
    """A lock that somebody has or waits for; `span` is from which byte to which."""

    waits: bool
    kind: str
    access: str
    pid: int
    file: str
    span: tuple[float, float]


def lock_owner(pid: int) -> LockOwner | None:
    """Return who has the lock that process `pid` waits for now: whoever took it, if it still does.

    Else it is the process that all who have it inherited the file from, if that has it too.
    None if it waits for none, or maybe for several, or the kernel does not show who has it, as with
    locks of other PID namespaces.
    """
    with suppress(OSError):
        owner, *more = _awaited(pid) or (None,)
        if owner is None:
            return None
        found = lockers(owner, pid)
        comm, first = next(found, ("", 0))
        if not first:
            return None
        others = {}
        # Who took it and has it is to give it back, whoever else inherited the file.
        if first != owner.pid:
            others = {other: name for name, other in found}
        # So is the shell whose child took it, and that has others of its children run meanwhile.
        if others and (parent := _common_parent({first, *others})):
            comm, first, others = others.get(parent, comm), parent, {}
        return LockOwner(comm, first, bool(more or others))
    return None


def _common_parent(pids: Set[int]) -> int | None:
    """The one of some processes that all others of them descend from; None if there is none.

    Raises OSError if one has ended.
    """
    parents = {pid: read_stat(pid).parent for pid in pids}
    first = [pid for pid, parent in parents.items() if parent not in pids]
    return first[0] if len(first) == 1 else None


def lock_owners(pid: int, fd: int | None = None) -> list[tuple[str, int]]:
    """Return the names and PIDs of all that have a lock that process `pid` waits for now.

    `fd` is the descriptor of the file that it is on; None: not known.
    These are that of lock_owner(), whoever has the open file from it, as by fork(2), and the owners
    of other locks on the file that keep it: several can have one for reading.
    """
    found: dict[int, str] = {}
    with suppress(OSError):
        for lock in islice(_awaited(pid, fd), MOST_LOCKS):
            for comm, owner in lockers(lock, pid):
                found.setdefault(owner, comm)
    return [(comm, owner) for owner, comm in found.items()]


def _awaited(pid: int, fd: int | None = None) -> list[Lock]:
    """The locks that keep a process: the one that the kernel shows first, and those of others.

    None where it may wait for several: which of its threads waits for which is not known.
    """
    lines = all_locks()
    own: list[tuple[Lock, Lock]] = []
    without_pid: list[tuple[Lock, Lock]] = []
    owner = None
    for line in lines:
        # Who waits is below who has it. In F_OFD_SETLKW it has no PID (fcntl_locking(2)).
        if not line.waits:
            owner = line
        elif owner is not None and line.pid == pid:
            own.append((owner, line))
        elif owner is not None and line.kind == _OF_OFD:
            without_pid.append((owner, line))
    # The main thread may have ended, and then has no descriptors in /proc.
    if fd is not None and (inodes := _open_inodes(pid, fd)):
        waits = [each for each in own if _inode(each[1]) in inodes]
        waits = waits or [each for each in without_pid if _inode(each[1]) in inodes]
    else:
        inodes = _open_inodes(pid) if without_pid else set()
        waits = own + [each for each in without_pid if _inode(each[1]) in inodes]
    if len({owner for owner, _ in waits}) != 1:
        return []
    owner, waiter = waits[0]
    # Of another PID namespace.
    if owner.pid <= 0 and owner.kind != _OF_OFD:
        return []
    return [owner, *_others_awaited(owner, waiter, lines)]


def _inode(lock: Lock) -> str:
    return lock.file.rpartition(":")[2]


def _open_inodes(pid: int, fd: int | None = None) -> set[str]:
    """The numbers of the inodes that a process has open, or by `fd` alone; OSError if too many."""
    end_s = time.thread_time() + MOST_CPU_S
    found = set()
    files = _named_files(pid) if fd is None else [(f"/proc/{pid}/fd/{fd}", "")]
    for path, _ in files:
        if time.thread_time() > end_s:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        with suppress(FileNotFoundError):
            for line in read_lines(Path(path.replace("/fd/", "/fdinfo/")), MOST_FILE_BYTES):
                # Before the locks: fs/proc/fd.c:seq_show(), 5.14 to 6.18.
                if line.startswith("ino:"):
                    found.add(line.split()[1])
    return found


def lockers(lock: Lock, asker: int) -> Iterator[tuple[str, int]]:
    """Yield the names and PIDs of those that have a lock on a file that `asker` has open too.

    The first is whoever took it, if it still has it. The others have the same open file: a lock
    that flock(2) or F_OFD_SETLK took is that of all of these. Raises OSError if there are too many
    files to look at all of them.
    """
    if lock.pid > 0 and (comm := locker(lock.pid, lock.file)) is not None:
        yield comm, lock.pid
    if lock.kind not in _OF_OPEN_FILES:
        return
    # Folders have other names in another mount namespace.
    names = {os.path.basename(link) for _, link in _named_files(asker)}
    end_s = time.thread_time() + MOST_CPU_S
    for pid in processes():
        # One that has ended, or may not be looked at.
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if pid not in (asker, lock.pid) and _has_open(pid, lock, names, end_s):
                yield read_comm(PROC / str(pid)), pid


def _has_open(pid: int, lock: Lock, names: Container[str], end_s: float) -> bool:
    """Whether a process has a file of one of these names open with that lock."""
    for path, link in _named_files(pid):
        if time.thread_time() > end_s:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        if os.path.basename(link) in names:
            with suppress(FileNotFoundError):
                if lock in _locks_on(Path(path.replace("/fd/", "/fdinfo/"))):
                    return True
    return False


def _named_files(pid: int) -> Iterator[tuple[str, str]]:
    """The descriptors of a process that are of files with a name."""
    return ((path, link) for path, link in islice(links(pid), MOST_FILES) if link[:1] == "/")


def all_locks() -> list[Lock]:
    """Return what /proc/locks has; OSError if it can't be read, or there are too many."""
    text = read_text(PROC / "locks", MOST_LIST_BYTES)
    if len(text) >= MOST_LIST_BYTES:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return [found for line in lines_of(text) if (found := parsed(line)) is not None]


def parsed(line: str) -> Lock | None:
    """Return what a line of /proc/locks says; None if it is no such line.

    NUMBER: [->] KIND MODE ACCESS PID DEVICE:INODE FROM TO.
    """
    words = line.split()
    waits = "->" in words
    words = [word for word in words if word != "->"]
    if len(words) < 8 or not words[4].lstrip("-").isdecimal():
        return None
    first, last = (math.inf if word == "EOF" else float(word) for word in words[6:8])
    return Lock(waits, words[1], words[3], int(words[4]), words[5], (first, last))


def _others_awaited(owner: Lock, waiter: Lock, lines: Iterable[Lock]) -> Iterator[Lock]:
    """Yield the locks of others on what is waited for: for reading, or on parts of it."""
    for line in lines:
        if (
            not line.waits
            and (line.kind, line.file) == (owner.kind, owner.file)
            and line != owner
            and line.span[0] <= waiter.span[1]
            and waiter.span[0] <= line.span[1]
        ):
            yield line


def locker(pid: int, file: str) -> str | None:
    """Return the name of a process; None unless it has the file open with a lock of its own."""
    process = PROC / str(pid)
    try:
        return read_comm(process) if file in _locked_files(process) else None
    except OSError:
        return None


def _locked_files(process: Path) -> set[str]:
    """DEVICE:INODE of all files that it has open with a lock of its own."""
    return {lock.file for lock in own_locks(process)}


def own_locks(process: Path) -> Iterator[Lock]:
    """Yield the locks on files that a process, a directory such as /proc/123, has open.

    Raises OSError if there are too many files to look at all of them.
    """
    end_s = time.thread_time() + MOST_CPU_S
    for file in (process / "fdinfo").iterdir():
        if time.thread_time() > end_s:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        with suppress(FileNotFoundError):
            yield from _locks_on(file)


def _locks_on(file: Path) -> Iterator[Lock]:
    """The locks of an open file, by its fdinfo: "lock:", and then what /proc/locks has.

    See fs/proc/fd.c, 5.14 to 6.18.
    """
    for line in read_lines(file, MOST_FILE_BYTES):
        key, _, rest = line.partition(":")
        lock = parsed(rest) if key == "lock" else None
        if lock is not None:
            yield lock
