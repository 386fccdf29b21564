"""What a process's descriptors are: files, pipes and sockets, and who is at their other ends."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from kernel_delay.capture.sleep_files import FileKey
from kernel_delay.host.file_status import file_status
from kernel_delay.host.open_files import INODE_MASK, PIDFD, access, watched_by_epoll
from kernel_delay.host.proc_text import read_lines
from kernel_delay.host.target import PROC
from kernel_delay.model import FilePeer, SleepFile
from kernel_delay.where import Held, Holder

# So much of a table of sockets is looked at, and of what an epoll descriptor watches.
TABLE_BYTES = 16 << 20

# Of what is listed, so many are named.
MOST_NAMED = 4

Found = Mapping[FileKey, SleepFile]
"""What descriptors are of, and who has the other ends."""


class Descriptor(Struct, frozen=True):
    """A file descriptor, and what it was of when the thread that waits for it was looked at.

    Attributes:
        fd: Its number.
        key: What it was of. None: not known.
    """

    fd: int
    key: FileKey | None = None


class Files:
    """The descriptors of one process."""

    def __init__(self, pid: int, tid: int) -> None:
        """Those of process `pid`; `tid` is a thread of it that has not ended."""
        self._pid = pid
        self._process = PROC / str(tid)
        self._watched: dict[int, list[int]] = {}

    def note(self, fd: int, *, writes: bool = False) -> Descriptor:
        """Return what a descriptor is of now.

        `writes`: the thread writes to it, and does not read, as far as it is open for both.
        """
        path = f"{self._process}/fd/{fd}"
        try:
            reads, is_for_writing = access(path)
            inode = file_status(path).inode & INODE_MASK
        except OSError:
            return Descriptor(fd)
        return Descriptor(
            fd, FileKey(self._pid, fd, inode, is_for_writing and (writes or not reads))
        )

    def epoll(self, fd: int) -> list[int]:
        """Return the descriptors that an epoll one watches; threads may share it."""
        if fd not in self._watched:
            self._watched[fd] = watched_by_epoll(self._process, fd, TABLE_BYTES)
        return self._watched[fd]

    def words(self, descriptor: Descriptor, found: Found) -> str:
        """Return a descriptor in words, with who is at the other end if that is known."""
        file = found.get(descriptor.key) if descriptor.key else None
        if descriptor.key is None or file is None:
            return f"fd {descriptor.fd}"
        end = "peer"
        if file.kind == "pipe":
            end = "reader" if descriptor.key.writes else "writer"
        elif file.name == PIDFD:
            end = "process"
        behind = f"; {end}: {_named(file)}" if file.peers else ""
        if file.held_back or file.peer_held_back:
            whose = "it" if file.held_back else "the peer"
            count = file.held_back or file.peer_held_back
            unit, are = ("byte", "is") if count == 1 else ("bytes", "are")
            behind += f"; {count:,} {unit} that {whose} sent {are} held back (Nagle's algorithm)"
        if file.kind == "pipe" and not file.peers:
            behind = f" whose {end} is not known"
        return f"fd {descriptor.fd} ({self._words(file)}{behind})"

    def _words(self, file: SleepFile) -> str:
        to = f" to {file.peer_address}" if file.peer_address else ""
        if file.kind == "pipe":
            return "a pipe" if file.name.startswith("pipe:") else f"the FIFO {file.name}"
        if file.kind in ("tcp", "udp") and not file.name.startswith("socket:"):
            return f"{file.kind.upper()} {file.name}{to}"
        if file.kind == "unix":
            return f"{self._unix(file)}{to}"
        if file.name.startswith("socket:"):
            return self._sockets.get(_inode(file), "a socket")
        return file.name.removeprefix("anon_inode:").strip("[]")

    def _unix(self, file: SleepFile) -> str:
        if not file.name.startswith("socket:"):
            return f"Unix socket {file.name}"
        is_known = file.peers or file.peer_address
        # It may be one of another network namespace.
        return "a Unix socket" if is_known else self._sockets.get(_inode(file), "a Unix socket")

    @cached_property
    def _sockets(self) -> dict[str, str]:
        """Unix sockets of other network namespaces, and netlink sockets, by their inodes."""
        found = {}
        for words in self._table("unix", 8):
            found[words[6]] = f"Unix socket {words[7]}"
        for words in self._table("netlink", 10):
            found[words[9]] = "a netlink socket"
        return found

    def _table(self, name: str, columns: int) -> Iterator[list[str]]:
        try:
            lines = read_lines(self._process / "net" / name, TABLE_BYTES)[1:]
        except OSError:
            return
        yield from (words for line in lines if len(words := line.split()) >= columns)


def peers(descriptor: Descriptor, found: Found) -> tuple[Holder, ...]:
    """Return who is at the other end of a descriptor, if that is known."""
    file = found.get(descriptor.key) if descriptor.key else None
    named = file.peers[:MOST_NAMED] if file is not None else ()
    return tuple(Holder("peer", peer.pid, peer.comm, _held(peer)) for peer in named)


def _inode(file: SleepFile) -> str:
    return file.name.removeprefix("socket:[").rstrip("]")


def _named(file: SleepFile) -> str:
    named = ", ".join(map(_peer, file.peers[:MOST_NAMED]))
    if file.more_peers:
        return f"{named} and maybe others"
    more = len(file.peers) - MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _peer(peer: FilePeer) -> str:
    held = _held(peer)
    return f"{peer.comm} ({peer.pid}){f', {held}' if held else ''}"


def _held(peer: FilePeer) -> Held | None:
    if peer.freezers:
        return "frozen"
    return "stopped" if peer.stopped else None
