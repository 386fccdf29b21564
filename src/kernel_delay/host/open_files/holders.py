"""Which processes have a pipe or a socket open: /proc/*/fd."""

import os
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernel_delay.host.open_files.descriptor import access
from kernel_delay.host.target import read_comm
from kernel_delay.model import FilePeer

# The links that are read at most, and the CPU time: 2,000 links take some 20 ms.
MOST_LINKS = 100_000
MOST_CPU_S = 0.3


class End(NamedTuple):
    """An end of a pipe or a socket.

    `link` is what /proc/PID/fd shows. `writes`: it is a pipe's end to write to; `reads`: to read
    from. Neither: a socket.
    """

    link: str
    inode: int
    reads: bool = False
    writes: bool = False


class Holders(NamedTuple):
    """The processes that have each end, and whether all that there are were looked at."""

    of: dict[End, list[FilePeer]]
    are_all: bool


def holders(ends: Collection[End], likely: Iterable[int] = ()) -> Holders:
    """Return which processes have these ends open; those in `likely` are looked at first.

    Of a socket one is enough, and of pipes all are looked for.
    """
    found: dict[End, list[FilePeer]] = {end: [] for end in ends}
    by_link: dict[str, list[End]] = {}
    for end in ends:
        by_link.setdefault(end.link, []).append(end)
    end_s = time.thread_time() + MOST_CPU_S
    count = 0
    for pid in _processes(likely):
        if all(found[end] and not (end.reads or end.writes) for end in ends):
            break
        if count > MOST_LINKS or time.thread_time() > end_s:
            return Holders(found, are_all=False)
        held: set[End] = set()
        for path, link in links(pid):
            count += 1
            held.update(end for end in by_link.get(link, ()) if _is_end(path, end))
        for end in held:
            found[end].append(_peer(pid))
    return Holders(found, are_all=True)


def _processes(likely: Iterable[int]) -> Iterator[int]:
    first = dict.fromkeys(likely)
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


def _is_end(path: str, end: End) -> bool:
    try:
        reads, writes = access(path)
        if os.stat(path).st_ino != end.inode:
            return False
    except OSError:
        return False
    return reads >= end.reads and writes >= end.writes


def _peer(pid: int) -> FilePeer:
    process = Path(f"/proc/{pid}")
    try:
        # proc_pid_stat(5): the name is in parentheses and may have some itself.
        state = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        return FilePeer(pid, read_comm(process), stopped=state == "T")
    except (OSError, IndexError):
        return FilePeer(pid, "")
