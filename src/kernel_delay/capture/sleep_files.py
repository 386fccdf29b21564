"""What the open files are that threads slept on, and who has their other ends.

They are looked at when the window is over. The programs noted the inode of each as the thread
slept: a descriptor that is of another file by now is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.capture.threads.collector import ThreadOf
from kernel_delay.formatting import encodable
from kernel_delay.host.cgroups import read_freezers
from kernel_delay.host.file_status import file_status
from kernel_delay.host.kernel_names import WRITES
from kernel_delay.host.open_files import (
    PIDFD,
    Descriptor,
    End,
    Holders,
    describe,
    holders,
    is_asleep,
    kernel_device,
    process_of_pidfd,
)
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.target import PROC, thread_count
from kernel_delay.model import FileKind, Sleep, SleepFile, SleepReason, Thread

if TYPE_CHECKING:
    from kernel_delay.host.open_files.inet import InetSockets

# Files that are looked at, those that were slept on longest.
MOST_FILES = 32

# Processes that are named of each.
MOST_PEERS = 8

_SOCKETS: frozenset[FileKind] = frozenset(("unix", "tcp", "udp", "socket"))
_OF_STORAGE: frozenset[FileKind] = frozenset(("file", "device"))

# What may be open where a thread sleeps for that, by the kernel's functions; else anything.
_KINDS: Mapping[SleepReason, frozenset[FileKind]] = {
    "pipe": frozenset(("pipe",)),
    "socket_receive": _SOCKETS,
    "socket_send": _SOCKETS,
    "socket_connect": _SOCKETS,
    "eventfd": frozenset(("eventfd",)),
    "terminal": frozenset(("device",)),
    # A POSIX queue: nothing else of that reason has a file.
    "semaphore": frozenset(("file",)),
    "disk": _OF_STORAGE,
    "page_cache": _OF_STORAGE,
    "network_filesystem": _OF_STORAGE,
    "file_lock": _OF_STORAGE,
}


class _Found(Struct, frozen=True):
    """What is known of a file without its peers, and its other end."""

    file: SleepFile
    end: End | None = None


class FileKey(Struct, frozen=True):
    """What distinguishes files, and the end that a thread waits at."""

    process: int
    fd: int
    inode: int
    writes: bool


def with_files(
    threads: Sequence[ThreadOf],
    unix_sockets: UnixSockets,
    seen: Mapping[FileKey, SleepFile] = MappingProxyType({}),
) -> list[ThreadOf]:
    """Return the threads, each with its process, with what the files are that they slept on.

    Args:
        threads: The threads.
        unix_sockets: Who has the other ends of sockets.
        seen: Files as they were within the window: of those that are closed by now.
    """
    asked: dict[FileKey, tuple[int, int, Sleep]] = {}
    for process, thread in threads:
        for sleep in thread.sleeps:
            if sleep.file is not None:
                key = _key(process, sleep, sleep.file)
                if key not in asked or asked[key][0] < sleep.ns:
                    asked[key] = sleep.ns, thread.tid, sleep
    wakers = (waker.pid for _, _, sleep in asked.values() for waker in sleep.wakers if waker.pid)
    longest = sorted(asked, key=lambda key: -asked[key][0])[:MOST_FILES]
    files = find_files(
        {key: (asked[key][1], asked[key][2].reason) for key in longest}, unix_sockets, wakers
    )
    files = with_states(files, unix_sockets)
    files |= {key: seen[key] for key in longest if key in seen and not _is_whole(files.get(key))}
    return [(process, _named(process, thread, files)) for process, thread in threads]


def find_files(
    asked: Mapping[FileKey, tuple[int, SleepReason]],
    unix_sockets: UnixSockets,
    likely: Iterable[int] = (),
) -> dict[FileKey, SleepFile]:
    """Return what the files are, and who has their other ends; without what does not fit.

    Each is asked for with a thread that has it, and what that slept for. The processes in `likely`
    are looked at first.
    """
    found: dict[FileKey, _Found] = {}
    inet: dict[int, InetSockets] = {}
    for key, (tid, reason) in asked.items():
        described = describe(key.process, tid, key.fd, key.inode)
        if described is not None and _fits(reason, described.kind):
            found[key] = _find(key, reason, described, unix_sockets, inet)
    ends: dict[End, set[int]] = {}
    for key, each in found.items():
        if each.end is not None:
            ends.setdefault(each.end, set()).add(key.process)
    held = holders(ends, likely) if ends else Holders({}, are_all=True)
    return {key: _with_peers(key, each, held) for key, each in found.items()}


def with_states(
    files: Mapping[FileKey, SleepFile], unix_sockets: UnixSockets
) -> dict[FileKey, SleepFile]:
    """Return the files with what those that have the other ends do: are they frozen, or asleep?

    Whoever is held comes first. Of sockets that one process alone has, it is whether that sleeps;
    of TCP connections, what the kernel holds back.
    """
    peers = {peer.pid for file in files.values() for peer in file.peers}
    freezers = read_freezers(peers) if peers else {}
    found: dict[FileKey, SleepFile] = {}
    are_asleep: dict[int, bool] = {}
    for key, each in files.items():
        file = _with_sending(each, unix_sockets)
        frozen = [replace(peer, freezers=freezers[peer.pid]) for peer in file.peers]
        found[key] = replace(file, peers=tuple(sorted(frozen, key=lambda peer: not peer.is_held)))
        if file.kind not in _SOCKETS or len(frozen) != 1:
            continue
        (peer,) = frozen
        if not peer.is_held and peer.pid not in are_asleep:
            are_asleep[peer.pid] = is_asleep(peer.pid)
        if are_asleep.get(peer.pid):
            found[key] = replace(file, peers=(replace(peer, asleep=True),))
    return found


def _with_sending(file: SleepFile, unix_sockets: UnixSockets) -> SleepFile:
    if file.kind != "tcp" or file.peer_address is None:
        return file
    # Most threads wait on no such connection.
    from kernel_delay.host.open_files.tcp_info import sending

    other = replace(file, name=file.peer_address, peer_address=file.name, inode=0)
    own = sending(unix_sockets.ask, file)
    return replace(
        file,
        held_back=own.held_back,
        peer_held_back=sending(unix_sockets.ask, other).held_back,
        last_sent_ns=own.last_ns,
    )


def _key(process: int, sleep: Sleep, file: SleepFile) -> FileKey:
    return FileKey(process, file.fd, file.inode, sleep.syscall in WRITES)


def _is_whole(file: SleepFile | None) -> bool:
    """Whether it is as it was slept on: of a connection that is over, one end is left at most."""
    return file is not None and (bool(file.peers) or file.kind not in _SOCKETS)


def _fits(reason: SleepReason, kind: FileKind) -> bool:
    return reason not in _KINDS or kind in _KINDS[reason]


def _find(
    key: FileKey,
    reason: SleepReason,
    described: Descriptor,
    unix_sockets: UnixSockets,
    inet: "dict[int, InetSockets]",
) -> _Found:
    """Say what a file is. `inet` has the other sockets of each process that they were asked of."""
    kind = described.kind
    file = SleepFile(fd=key.fd, inode=key.inode, kind=kind, name=encodable(described.link))
    if kind == "pipe" or reason == "semaphore":
        # A poll waits for room where nothing can be read.
        writes = key.writes or not described.reads
        end = End(described.link, described.inode, reads=writes, writes=not writes)
        return _Found(file, end)
    # An event loop has an eventfd for its own threads: to look for others would take long.
    if described.numbered is not None and (kind == "device" or reason in ("eventfd", "unknown")):
        other_end = described.numbered.other_end
        end = End(other_end.name, 0, reads=key.writes, writes=not key.writes, numbered=other_end)
        return _Found(file, end)
    if described.link == PIDFD:
        return _Found(replace(file, peers=process_of_pidfd(key.process, key.fd)))
    if kind == "unix":
        return _find_unix(file, unix_sockets)
    if kind == "tcp" or kind == "udp":
        # Most threads wait on no such socket.
        from kernel_delay.host.open_files.inet import InetSockets

        if key.process not in inet:
            inet[key.process] = InetSockets(PROC / str(key.process))
        ends = inet[key.process].ends(kind, described.inode)
        if ends is None:
            return _Found(file)
        file = replace(
            file,
            name=ends.local,
            peer_address=ends.remote,
            is_client=ends.is_client,
            is_server=ends.is_server,
        )
        if kind == "tcp" and ends.remote is not None and not (ends.is_client or ends.is_server):
            file = _with_role(file, unix_sockets)
        return _Found(file, _socket(ends.peer_inode))
    return _Found(file)


def _with_role(file: SleepFile, unix_sockets: UnixSockets) -> SleepFile:
    """Ask the kernel who connected: nobody listens any more at either port, or far away."""
    from kernel_delay.host.open_files.tcp_info import role

    found = role(unix_sockets.ask, file)
    return replace(file, is_client=found == "client", is_server=found == "server")


def _find_unix(file: SleepFile, unix_sockets: UnixSockets) -> _Found:
    own = unix_sockets.find(file.inode)
    if own is None:
        return _Found(file)
    peer = unix_sockets.find(own.peer_inode) if own.peer_inode else None
    address = (peer.name if peer else "") or None
    # What is accepted has the name of the socket that listens: unix(7).
    is_client, is_server = bool(address) and not own.name, bool(own.name) and not address
    file = replace(
        file,
        name=own.name or file.name,
        peer_address=address,
        is_client=is_client,
        is_server=is_server,
    )
    return _Found(file, _socket(own.peer_inode))


def _socket(inode: int) -> End | None:
    return End(f"socket:[{inode}]", inode) if inode else None


def _with_peers(key: FileKey, found: _Found, held: Holders) -> SleepFile:
    if found.end is None:
        return found.file
    peers = held.of[found.end]
    # Whoever opens a FIFO to read and write, or has left open what it was forked with, has both. A
    # process's only thread does nothing for itself while it waits, but one of several may.
    others = [peer for peer in peers if peer.pid != key.process]
    if others and thread_count(key.process) <= 1:
        peers = others
    # One that is stopped does nothing for it, whoever else inherited the end.
    peers = sorted(peers, key=lambda peer: (peer.pid == key.process, not peer.stopped))
    is_of_all = found.end.reads or found.end.writes
    return replace(
        found.file,
        peers=tuple(peers[:MOST_PEERS]),
        more_peers=len(peers) > MOST_PEERS
        or (is_of_all and not held.are_all)
        or found.end in held.cut,
    )


def _named(process: int, thread: Thread, files: Mapping[FileKey, SleepFile]) -> Thread:
    if not any(sleep.file for sleep in thread.sleeps):
        return thread
    return replace(thread, sleeps=tuple(_with_file(process, each, files) for each in thread.sleeps))


def _with_file(process: int, sleep: Sleep, files: Mapping[FileKey, SleepFile]) -> Sleep:
    if not sleep.file:
        return sleep
    file = files.get(_key(process, sleep, sleep.file), sleep.file)
    reason = sleep.reason
    if reason == "epoll" and file.kind != "epoll":
        file = _as_it_was_ready(file)
    if reason == "page_cache" and file.kind == "file" and _is_of_fuse(process, file):
        # Its server is to fill the page.
        reason = "fuse"
    return replace(sleep, file=file, reason=reason)


def _as_it_was_ready(file: SleepFile) -> SleepFile:
    """The file that ended all sleeps on it: what keeps its other ends now did not keep them."""
    peers = [replace(peer, stopped=False, freezers=(), asleep=False) for peer in file.peers]
    return replace(file, peers=tuple(peers))


def _is_of_fuse(process: int, file: SleepFile) -> bool:
    # Nobody else waits for pages of files so often.
    from kernel_delay.host.open_files.fuse import is_fuse

    try:
        status = file_status(f"{PROC}/{process}/fd/{file.fd}")
    except OSError:
        return False
    return is_fuse(process, kernel_device(status.device))
