"""The memory mappings of a process, as /proc/PID/maps lists them (proc_pid_maps(5))."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

DELETED = " (deleted)"


class Mapping(Struct, frozen=True):
    """One mapping: memory addresses [start, end).

    `offset` is the file offset at `start`, `path` the file's as the kernel
    prints it, without the " (deleted)" that `deleted` stands for; a pseudo
    path such as "[vdso]"; or "" for anonymous memory. `device` and `inode`
    are those of the file, `inode` 0 where there is none.
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

    @property
    def range(self) -> str:
        """The mapping's name in /proc/PID/map_files."""
        return f"{self.start:x}-{self.end:x}"

    def overlaps(self, others: Iterable["Mapping"]) -> bool:
        """Whether an address is in this mapping and in one of `others`."""
        return any(self.start < other.end and other.start < self.end for other in others)


def read_mappings(process: Path) -> tuple[Mapping, ...]:
    """Read the mappings of `process`, a directory such as /proc/123.

    Empty for a process that has exited and a thread that has no memory.
    """
    try:
        text = (process / "maps").read_text(errors="surrogateescape")
    except (FileNotFoundError, ProcessLookupError):
        return ()
    return tuple(parse_mapping(line) for line in text.split("\n") if line)


def parse_mapping(line: str) -> Mapping:
    """Parse one line of /proc/PID/maps."""
    span, permissions, offset, device, inode, *rest = line.split(maxsplit=5)
    start, end = span.split("-")
    path = rest[0].replace("\\012", "\n") if rest else ""
    deleted = path.endswith(DELETED) and inode != "0"
    return Mapping(
        start=int(start, 16),
        end=int(end, 16),
        executable=permissions[2] == "x",
        writable=permissions[1] == "w",
        offset=int(offset, 16),
        device=device,
        inode=int(inode),
        path=path.removesuffix(DELETED) if deleted else path,
        deleted=deleted,
    )
