"""What a process's descriptors are: files, pipes and sockets, and who is at their other ends."""

import os
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from kernel_delay.host.target import PROC, process_ids, read_comm
from kernel_delay.where.answer import Holder

# So many descriptors of all processes are looked at, and so much of a table of sockets.
MOST_DESCRIPTORS = 200_000
TABLE_BYTES = 16 << 20

# Of what is listed, so many are named.
MOST_NAMED = 4

O_ACCMODE = 3

_TABLES = (
    ("tcp", "TCP", socket.AF_INET),
    ("tcp6", "TCP", socket.AF_INET6),
    ("udp", "UDP", socket.AF_INET),
    ("udp6", "UDP", socket.AF_INET6),
)

Address = tuple[str, int]


class Descriptor(Struct, frozen=True):
    """A file descriptor in words, and who is at the other end if that is known."""

    words: str
    peers: tuple[Holder, ...] = ()


class _Connection(Struct, frozen=True):
    """A socket as /proc/PID/net lists it."""

    protocol: str
    local: Address
    remote: Address

    @property
    def is_connected(self) -> bool:
        return self.remote[1] != 0

    def __str__(self) -> str:
        if not self.is_connected:
            return f"{self.protocol} {_address(self.local)}"
        return f"{self.protocol} {_address(self.local)} to {_address(self.remote)}"


class Links:
    """Which processes have which pipes and sockets open; read once, when it is first asked for."""

    def processes(self, link: str, access: int | None = None) -> tuple[tuple[int, str], ...]:
        """Return the processes that have it open, with their names.

        With `access`, one of os.O_RDONLY and so on, only those that have it open so, or for both.
        """
        found = {}
        for pid, fd in self._open.get(link, ()):
            if access is not None and _access(pid, fd) not in (access, os.O_RDWR):
                continue
            try:
                found[pid] = read_comm(PROC / str(pid))
            except OSError:
                continue
        return tuple(found.items())

    @cached_property
    def _open(self) -> dict[str, list[tuple[int, str]]]:
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for number, (pid, fd, link) in enumerate(_all_links()):
            if link.startswith(("pipe:", "socket:")):
                found[link].append((pid, fd))
            if number >= MOST_DESCRIPTORS:
                break
        return found


class Files:
    """The descriptors of one process."""

    def __init__(self, process: Path, links: Links) -> None:
        """Those of `process`, a directory such as /proc/123."""
        self._process = process
        self._links = links

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
        try:
            text = (self._process / "fdinfo" / str(fd)).read_text(errors="replace")
        except OSError:
            return []
        # "tfd: 5 events: …" (fs/eventpoll.c:ep_show_fdinfo(), 5.14 to 6.18).
        lines = (line.split() for line in text.splitlines())
        return [int(words[1]) for words in lines if words[:1] == ["tfd:"] and len(words) > 1]

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
        connection = self._connections.get(inode)
        if connection is None:
            return Descriptor(f"fd {fd} ({self._unix.get(inode, 'a socket')})")
        peer = self._by_ends.get((connection.remote, connection.local))
        processes = self._links.processes(f"socket:[{peer}]") if peer else ()
        peers = tuple(Holder("peer", pid, comm) for pid, comm in processes[:MOST_NAMED])
        behind = f"; peer: {_named(peers, len(processes))}" if peers else ""
        return Descriptor(f"fd {fd} ({connection}{behind})", peers)

    @cached_property
    def _connections(self) -> dict[str, _Connection]:
        """By their inodes; proc_pid_net(5)."""
        found = {}
        for name, protocol, family in _TABLES:
            for words in self._table(name, 10):
                local, remote = _parsed(words[1], family), _parsed(words[2], family)
                if local is not None and remote is not None:
                    found[words[9]] = _Connection(protocol, local, remote)
        return found

    @cached_property
    def _by_ends(self) -> dict[tuple[Address, Address], str]:
        return {
            (each.local, each.remote): inode
            for inode, each in self._connections.items()
            if each.is_connected
        }

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
            with (self._process / "net" / name).open(errors="backslashreplace") as file:
                lines = file.read(TABLE_BYTES).splitlines()[1:]
        except OSError:
            return
        yield from (words for line in lines if len(words := line.split()) >= columns)


def _named(peers: tuple[Holder, ...], count: int) -> str:
    named = ", ".join(f"{peer.name} ({peer.tid})" for peer in peers)
    return named if count <= len(peers) else f"{named} and {count - len(peers)} more"


def _parsed(text: str, family: int) -> Address | None:
    """An address as the tables have it: words of 32 bits in the machine's order, and a port."""
    digits, _, port = text.partition(":")
    try:
        words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
        packed = b"".join(struct.pack("=I", word) for word in words)
        host = socket.inet_ntop(family, packed).removeprefix("::ffff:")
        return host, int(port, 16)
    except (ValueError, OSError, struct.error):
        return None


def _address(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _all_links() -> Iterator[tuple[int, str, str]]:
    """Every descriptor of every process: the PID, the descriptor and what it is."""
    for pid in process_ids():
        try:
            with os.scandir(PROC / str(pid) / "fd") as entries:
                for entry in entries:
                    try:
                        yield pid, entry.name, os.readlink(entry.path)
                    except OSError:
                        continue
        except OSError:
            continue


def _access(pid: int, fd: str) -> int | None:
    """How a descriptor is open; None if it is gone. "flags:" of proc_pid_fdinfo(5) are octal."""
    try:
        text = (PROC / str(pid) / "fdinfo" / fd).read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & O_ACCMODE
    return None
