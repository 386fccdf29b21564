"""The memory mappings of a process, as /proc/PID/maps lists them (proc_pid_maps(5))."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

from kernel_delay.host.address_space import read_in_time
from kernel_delay.host.proc_text import DELETED

MAPS_BYTES = 64 << 20
"""Some 600,000 mappings; a process may have 65,530 by default (sysctl(8), vm.max_map_count)."""

T = TypeVar("T")


class Mapping(Struct, frozen=True):
    """One mapping: memory addresses [start, end).

    `offset` is the file offset at `start`, `path` the file's as the kernel
    prints it, without the " (deleted)" that `deleted` stands for; a pseudo
    path such as "[vdso]"; or "" for anonymous memory. The process chooses the
    path: os.fsencode() gives its bytes, and it is to be escaped when printed.
    `device` and `inode` are those of the file, `inode` 0 where there is none. `shared`: what one
    process writes there, all others that have it see.
    """

    start: int
    end: int
    executable: bool
    writable: bool
    offset: int
    device: str
    inode: int
    path: str
    deleted: bool
    shared: bool = False

    @property
    def range(self) -> str:
        """The mapping's name in /proc/PID/map_files."""
        return f"{self.start:x}-{self.end:x}"

    @property
    def file(self) -> tuple[str, int, str]:
        """What mappings of the same file have in common."""
        return self.device, self.inode, self.path


class Ranges(Generic[T]):
    """Ranges of addresses [start, end) that don't overlap, each with a value."""

    def __init__(self, ranges: Iterable[tuple[int, int, T]]) -> None:
        """Sort the ranges; of no process are two in the same place."""
        self._ranges = sorted(ranges, key=lambda each: each[0])
        self._starts = [start for start, _, _ in self._ranges]

    def find(self, address: int) -> T | None:
        """Return the value of the range that holds the address; None if there is none."""
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._ranges[at][1]:
            return None
        return self._ranges[at][2]

    def overlap(self, start: int, end: int) -> bool:
        """Whether an address of [start, end) is in one of the ranges."""
        at = bisect_left(self._starts, end) - 1
        return at >= 0 and start < self._ranges[at][1] and start < end


def code_ranges(mappings: Iterable[Mapping]) -> Ranges[Mapping]:
    """Index mappings by their addresses."""
    return Ranges((mapping.start, mapping.end, mapping) for mapping in mappings)


def read_mappings(process: Path) -> tuple[Mapping, ...]:
    """Read the mappings of `process`, a directory such as /proc/123.

    Empty for a process that has exited and a thread that has no memory. Of a
    text longer than MAPS_BYTES the beginning. TimeoutError: others have the lock of its address
    space.
    """
    content = _read_maps(process, MAPS_BYTES)
    if len(content) == MAPS_BYTES:
        content = content[: content.rfind(b"\n") + 1]
    return tuple(parse_mapping(line) for line in content.split(b"\n") if line)


def has_mappings(process: Path) -> bool:
    """Whether `process`, a directory such as /proc/123, has memory; see read_mappings()."""
    return bool(_read_maps(process, 1))


def _read_maps(process: Path, most_bytes: int) -> bytes:
    def read() -> bytes:
        with (process / "maps").open("rb", buffering=0 if most_bytes == 1 else -1) as maps:
            return maps.read(most_bytes) or b""

    try:
        return read_in_time(read)
    except (FileNotFoundError, ProcessLookupError):
        return b""


def parse_mapping(line: bytes) -> Mapping:
    """Parse one line of /proc/PID/maps.

    Its bytes: the path may have any but NUL, and of them only a newline is
    escaped (fs/seq_file.c, seq_path(), 6.18). Text would end lines at "\\r" too.
    """
    span, permissions, offset, device, inode, *rest = line.split(maxsplit=5)
    start, end = span.split(b"-")
    path = os.fsdecode(rest[0].replace(b"\\012", b"\n")) if rest else ""
    deleted = path.endswith(DELETED) and inode != b"0"
    return Mapping(
        start=int(start, 16),
        end=int(end, 16),
        executable=permissions[2:3] == b"x",
        writable=permissions[1:2] == b"w",
        offset=int(offset, 16),
        device=device.decode(),
        inode=int(inode),
        path=path.removesuffix(DELETED) if deleted else path,
        deleted=deleted,
        shared=permissions[3:4] == b"s",
    )
