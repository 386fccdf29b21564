"""What a process's descriptors are: files, pipes and sockets, and who is at their other ends."""

import os
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from kernel_delay.host.open_files import access as access_of
from kernel_delay.host.open_files import links, watched_by_epoll
from kernel_delay.host.open_files.inet import InetSockets, text_of
from kernel_delay.host.proc_text import read_lines
from kernel_delay.host.target import PROC, process_ids, read_comm
from kernel_delay.where import Holder

# So many descriptors of all processes are looked at, and so much of a table of sockets.
MOST_DESCRIPTORS = 200_000
TABLE_BYTES = 16 << 20

# Of what is listed, so many are named.
MOST_NAMED = 4


class Descriptor(Struct, frozen=True):
    """A file descriptor in words, and who is at the other end if that is known."""

    words: str
    peers: tuple[Holder, ...] = ()


class Links:
    """Which processes have which pipes and sockets open; read once, when it is first asked for."""

    def processes(self, link: str, access: int | None = None) -> tuple[tuple[int, str], ...]:
        """Return the processes that have it open, with their names.

        With `access`, os.O_RDONLY or os.O_WRONLY, only those that have it open so, or for both.
        """
        found = {}
        for pid, path in self._open.get(link, ()):
            try:
                reads, writes = access_of(path)
                if (access == os.O_RDONLY and not reads) or (access == os.O_WRONLY and not writes):
                    continue
                found[pid] = read_comm(PROC / str(pid))
            except OSError:
                continue
        return tuple(found.items())

    @cached_property
    def _open(self) -> dict[str, list[tuple[int, str]]]:
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for number, (pid, path, link) in enumerate(_all_links()):
            if link.startswith(("pipe:", "socket:")):
                found[link].append((pid, path))
            if number >= MOST_DESCRIPTORS:
                break
        return found


class Files:
    """The descriptors of one process."""

    def __init__(self, process: Path, links: Links) -> None:
        """Those of `process`, a directory such as /proc/123."""
        self._process = process
        self._links = links
        self._inet = InetSockets(process, TABLE_BYTES)

    def describe(self, fd: int, access: int | None = None) -> Descriptor:
        """Return what a descriptor is.

        With `access`, the peers of a pipe are those that have it open so.
        """
        try:
            link = os.readlink(self._process / "fd" / str(fd))
        except OSError:
            return Descriptor(f"fd {fd}")
        if link.startswith("pipe:"):
            return self._pipe(fd, link, access)
        if link.startswith("socket:"):
            return self._socket(fd, link)
        words = os.fsencode(link).decode(errors="backslashreplace")
        return Descriptor(f"fd {fd} ({words.removeprefix('anon_inode:').strip('[]')})")

    def epoll(self, fd: int) -> list[int]:
        """Return the descriptors that an epoll one watches."""
        return watched_by_epoll(self._process, fd)

    def several(self, fds: list[int]) -> str:
        """Return what several descriptors are; the first are named."""
        named = [self.describe(fd).words for fd in fds[:MOST_NAMED]]
        if len(fds) > MOST_NAMED:
            named.append(f"{len(fds) - MOST_NAMED} more")
        return ", ".join(named) if named else "no descriptor"

    def _pipe(self, fd: int, link: str, access: int | None) -> Descriptor:
        if access is None:
            return Descriptor(f"fd {fd} (a pipe)")
        end = "writer" if access == os.O_WRONLY else "reader"
        processes = self._links.processes(link, access)
        peers = tuple(Holder("peer", pid, comm) for pid, comm in processes[:MOST_NAMED])
        if not peers:
            return Descriptor(f"fd {fd} (a pipe whose {end} is not known)")
        return Descriptor(f"fd {fd} (a pipe; {end}: {_named(peers, len(processes))})", peers)

    def _socket(self, fd: int, link: str) -> Descriptor:
        inode = link.removeprefix("socket:[").rstrip("]")
        own = self._inet.find(int(inode))
        if own is None:
            return Descriptor(f"fd {fd} ({self._unix.get(inode, 'a socket')})")
        words = f"{own.protocol.upper()} {text_of(own.local)}"
        if not own.is_connected:
            return Descriptor(f"fd {fd} ({words})")
        peer = self._inet.peer(own)
        processes = self._links.processes(f"socket:[{peer.inode}]") if peer else ()
        peers = tuple(Holder("peer", pid, comm) for pid, comm in processes[:MOST_NAMED])
        behind = f"; peer: {_named(peers, len(processes))}" if peers else ""
        return Descriptor(f"fd {fd} ({words} to {text_of(own.remote)}{behind})", peers)

    @cached_property
    def _unix(self) -> dict[str, str]:
        found = {}
        for words in self._table("unix", 7):
            found[words[6]] = f"Unix socket {words[7]}" if len(words) > 7 else "a Unix socket"
        for words in self._table("netlink", 10):
            found[words[9]] = "a netlink socket"
        return found

    def _table(self, name: str, columns: int) -> Iterator[list[str]]:
        try:
            lines = read_lines(self._process / "net" / name, TABLE_BYTES)[1:]
        except OSError:
            return
        yield from (words for line in lines if len(words := line.split()) >= columns)


def _named(peers: tuple[Holder, ...], count: int) -> str:
    named = ", ".join(f"{peer.name} ({peer.tid})" for peer in peers)
    return named if count <= len(peers) else f"{named} and {count - len(peers)} more"


def _all_links() -> Iterator[tuple[int, str, str]]:
    """Every descriptor of every process: the PID, the descriptor's path and what it is of."""
    for pid in process_ids():
        for path, link in links(pid):
            yield pid, path, link
