"""What a process's file descriptors are of, and which processes have the other end.

From /proc/PID/fd and /proc/PID/net, and for Unix sockets from the kernel's sock_diag(7).
"""

import os
import stat
import struct
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernel_delay.host.file_status import file_status
from kernel_delay.host.kernel_names import (
    ACCEPTS,
    ARRAY_POLLS,
    EPOLLS,
    FUTEXES,
    POLLS,
    SET_POLLS,
)
from kernel_delay.host.open_files.numbered import EVENTFD, Numbered, file_name, find_numbered
from kernel_delay.host.proc_text import read_lines, read_number
from kernel_delay.host.syscalls import syscall_name
from kernel_delay.host.target import PROC, children_of, read_comm, read_stat
from kernel_delay.model import FileKind, FilePeer

if TYPE_CHECKING:
    from kernel_delay.host.process_memory import MemoryFile, Patience


# The inode's number as the programs have it.
INODE_MASK = 0xFFFFFFFF

# fs/eventfd.c, fs/eventpoll.c: what the links are called.
_ANONYMOUS: dict[str, FileKind] = {
    EVENTFD: "eventfd",
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

    `link` is what /proc shows. `writes`: it is open for writing; `reads`: for reading. `numbered`:
    which of the files with such a link it is.
    """

    kind: FileKind
    link: str
    inode: int
    reads: bool
    writes: bool
    numbered: Numbered | None = None


def describe(pid: int, tid: int, fd: int, inode: int) -> Descriptor | None:
    """Return what the thread's descriptor is of; None unless it is still of that inode."""
    path = f"/proc/{pid}/task/{tid}/fd/{fd}"
    try:
        # The thread may put another file there meanwhile, whose server does not answer.
        held = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        own = f"/proc/self/fd/{held}"
        now = file_status(own)
        link = os.readlink(own)
        reads, writes = access(path)
        if now.inode & INODE_MASK != inode:
            return None
        kind, numbered = _kind(own, link, now.mode), find_numbered(path, link)
        return Descriptor(kind, link, now.inode, reads, writes, numbered)
    except OSError:
        return None
    finally:
        os.close(held)


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
        # A descriptor of O_PATH may be of a socket in a file system, whose server would be asked.
        is_open = link.startswith("socket:")
        return _PROTOCOLS.get(_protocol(path), "socket") if is_open else "socket"
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


# Of a process, relatives that are looked at.
MOST_FAMILY = 64

# The links that are read at most, and the CPU time: 2,000 links take some 20 ms.
MOST_LINKS = 100_000
MOST_CPU_S = 0.3


class End(NamedTuple):
    """An end of a pipe, a pseudo-terminal or a socket; or an eventfd.

    `link` is what /proc/PID/fd shows, of `numbered` its name. `writes`: it is an end to write to;
    `reads`: to read from. Neither: a socket.
    """

    link: str
    inode: int
    reads: bool = False
    writes: bool = False
    numbered: Numbered | None = None


class Holders(NamedTuple):
    """The processes that have each end.

    `are_all`: all that there are were looked at. `cut`: sockets for which relatives of those that
    have them were not.
    """

    of: dict[End, list[FilePeer]]
    are_all: bool
    cut: frozenset[End] = frozenset()


def holders(ends: Mapping[End, Collection[int]], likely: Iterable[int] = ()) -> Holders:
    """Return which processes have these ends open.

    Of a socket one is enough, with those of its family that inherited it. All others are looked for
    everywhere.

    Args:
        ends: The ends, and the processes that have the others: of these none is enough, as what
            was forked may have both.
        likely: Processes that are looked at first.
    """
    found: dict[End, list[FilePeer]] = {end: [] for end in ends}
    by_link: dict[str, list[End]] = {}
    for end in ends:
        by_link.setdefault(end.link, []).append(end)
    end_s = time.thread_time() + MOST_CPU_S
    count, are_all = 0, True
    for pid in processes(likely):
        if all(
            not (end.reads or end.writes) and any(peer.pid not in askers for peer in found[end])
            for end, askers in ends.items()
        ):
            break
        if count > MOST_LINKS or time.thread_time() > end_s:
            are_all = False
            break
        held: set[End] = set()
        for path, link in links(pid):
            count += 1
            wanted = by_link.get(file_name(link), ())
            if wanted and time.thread_time() > end_s:
                are_all = False
                break
            held.update(end for end in wanted if _is_end(path, link, end))
        for end in held:
            found[end].append(_peer(pid))
    return Holders(found, are_all, _add_families(found, end_s))


def _add_families(found: dict[End, list[FilePeer]], end_s: float) -> frozenset[End]:
    """Add the relatives of those that have sockets, as far as they have these too.

    Returns the sockets for which not all were looked at until then, in this thread's CPU time.
    """
    families: dict[int, list[int]] = {}
    asked: dict[int, dict[str, End]] = {}
    cut: set[End] = set()
    for end, peers in found.items():
        if end.reads or end.writes:
            continue
        known = {peer.pid for peer in peers}
        for pid in known - families.keys():
            if time.thread_time() > end_s:
                cut.add(end)
            else:
                families[pid] = _family(pid)
        for relative in {other for pid in known for other in families.get(pid, ())} - known:
            asked.setdefault(relative, {})[end.link] = end
    for relative in sorted(asked):
        ends, held = asked[relative], set[End]()
        for path, link in links(relative):
            if time.thread_time() > end_s:
                cut.update(ends.values())
                break
            if link in ends and _is_end(path, link, ends[link]):
                held.add(ends[link])
        for end in held:
            found[end].append(_peer(relative))
    return frozenset(cut)


def _family(pid: int) -> list[int]:
    with suppress(OSError):
        parent = read_stat(pid).parent
        # Whoever lost its parent has the first process: that has many children.
        siblings = [parent, *children_of(parent)] if parent > 1 else []
        return [*siblings, *children_of(pid)][:MOST_FAMILY]
    return []


def processes(likely: Iterable[int] = ()) -> Iterator[int]:
    """Yield all processes, those in `likely` first."""
    first: dict[int, None] = dict.fromkeys(likely, None)
    yield from first
    with suppress(OSError):
        for name in sorted(os.listdir("/proc"), key=len):
            if name.isdecimal() and int(name) not in first:
                yield int(name)


def links(pid: int) -> Iterator[tuple[str, str]]:
    """Yield the paths of a process's descriptors, and what they are of."""
    folder = f"/proc/{pid}/fd"
    # Those of other users, and those of processes that have exited, can't be read.
    with suppress(OSError):
        for name in os.listdir(folder):
            path = f"{folder}/{name}"
            with suppress(OSError):
                yield path, os.readlink(path)


def _is_end(path: str, link: str, end: End) -> bool:
    try:
        reads, writes = access(path)
        number = end.numbered
        is_file = number.is_at(path, link) if number else file_status(path).inode == end.inode
    except OSError:
        return False
    return is_file and reads >= end.reads and writes >= end.writes


def _peer(pid: int) -> FilePeer:
    process = Path(f"/proc/{pid}")
    try:
        return FilePeer(pid, read_comm(process), stopped=read_stat(pid).state == "T")
    except (OSError, IndexError):
        return FilePeer(pid, "")


PIDFD = "anon_inode:[pidfd]"
"""What pidfd_open(2) opens: kernel/fork.c, 5.14 to 6.8, and fs/pidfs.c, 6.9 to 6.18."""


def process_of_pidfd(pid: int, fd: int) -> tuple[FilePeer, ...]:
    """Return the process that such a descriptor of process `pid` is of; none if it is not known."""
    with suppress(OSError, ValueError):
        number = read_number(f"/proc/{pid}/fdinfo/{fd}", "Pid", MOST_FDINFO_BYTES)
        # -1: it has ended. 0: it is of a PID namespace beside ours.
        return (_peer(number),) if number is not None and number > 0 else ()
    return ()


# Of a process, threads that are looked at.
MOST_THREADS = 64

# Calls that a thread sleeps in for what others are to send or do.
_IDLE_CALLS = frozenset((*POLLS, *FUTEXES, *ACCEPTS))


def is_asleep(pid: int) -> bool:
    """Return whether all threads of a process sleep now, in polls, futexes or accept."""
    tasks = PROC / str(pid) / "task"
    try:
        tids = os.listdir(tasks)
        if len(tids) > MOST_THREADS:
            return False
        # proc_pid_syscall(5): "running" has no number.
        numbers = ((tasks / tid / "syscall").read_text().split()[0] for tid in tids)
        return all(
            number.isdecimal() and syscall_name(int(number)) in _IDLE_CALLS for number in numbers
        )
    except (OSError, IndexError):
        return False


MINOR_BITS = 20
"""Of a device's number within the kernel, the lowest; include/linux/kdev_t.h."""


def kernel_device(device: int) -> int:
    """Return a device's number, as stat(2) has it, as the kernel has it."""
    return os.major(device) << MINOR_BITS | os.minor(device)


# Whoever waits for more has many peers.
MOST_WATCHED = 64

# Of more than are watched at most.
MOST_FDINFO_BYTES = 1 << 16

# struct pollfd of poll(2)
_POLLFD = struct.Struct("ihh")

# Bits of a set of select(2) that are read at most.
MOST_BITS = 1 << 16


def watched_by_epoll(process: Path, fd: int, most_bytes: int = MOST_FDINFO_BYTES) -> list[int]:
    """Return the descriptors that an epoll one watches. `process` is as /proc/123."""
    try:
        lines = read_lines(process / "fdinfo" / str(fd), most_bytes)
    except OSError:
        return []
    # "tfd: 5 events: …" (fs/eventpoll.c:ep_show_fdinfo(), 5.14 to 6.18).
    found = (line.split() for line in lines)
    return [int(words[1]) for words in found if words[:1] == ["tfd:"] and len(words) > 1]


def watched_now(pid: int, tid: int, patience: "Patience") -> list[int]:
    """Return what a thread waits for now in a poll; nothing where it does not, or for too many.

    `patience` is how long its memory is waited for, which may belong to anybody.
    """
    # Wait chains alone ask.
    from kernel_delay.host.process_memory import MemoryFile

    process = PROC / str(pid)
    try:
        words = (process / "task" / str(tid) / "syscall").read_text().split()
        name = syscall_name(int(words[0])) if len(words) > 2 else None
        if name in EPOLLS:
            found = watched_by_epoll(process, int(words[1], 16))
            return found if len(found) <= MOST_WATCHED else []
        if name not in ARRAY_POLLS and name not in SET_POLLS:
            return []
        arguments = [int(word, 16) for word in words[1:]]
        memory = MemoryFile(process, patience)
        try:
            found = (
                _in_array(memory, *arguments[:2])
                if name in ARRAY_POLLS
                else _in_sets(memory, *arguments[:4])
            )
        finally:
            memory.close()
    except (OSError, ValueError):
        return []
    return found if len(found) <= MOST_WATCHED else []


def _in_array(memory: "MemoryFile", address: int, count: int) -> list[int]:
    """The descriptors of an array of poll(2); none where there are too many."""
    read = memory.read(address, count * _POLLFD.size) if count <= MOST_WATCHED else b""
    whole = read[: len(read) // _POLLFD.size * _POLLFD.size]
    entries: Iterator[tuple[int, int, int]] = _POLLFD.iter_unpack(whole)
    return [fd for fd, _, _ in entries if fd >= 0]


def _in_sets(memory: "MemoryFile", bits: int, *addresses: int) -> list[int]:
    """The descriptors in the sets of select(2), which stay as they are while it sleeps."""
    if bits > MOST_BITS:
        return []
    found = 0
    for address in filter(None, addresses):
        # Of whole words, as the kernel reads them: fs/select.c:get_fd_set().
        found |= int.from_bytes(memory.read(address, (bits + 63) // 64 * 8), sys.byteorder)
    return [fd for fd in range(bits) if found >> fd & 1]
