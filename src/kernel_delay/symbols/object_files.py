"""The ELF files behind a process's code: the very files that are mapped, opened."""

import os
from pathlib import Path
from typing import Literal, Self

from msgspec import Struct

from kernel_delay.symbols.debug_files import DebugFiles, Root, find_debug_files
from kernel_delay.symbols.elf import Elf, read_elf, read_elf_image
from kernel_delay.symbols.mappings import Mapping, read_mappings
from kernel_delay.symbols.memory import ProcessMemory

NOTES_SIZE = 64 << 10
"""The build-id's note is looked for in this many bytes; linkers put it right behind the headers."""


class ObjectFile(Struct, frozen=True):
    """An ELF object in memory: the executable, a library, the vDSO.

    `code` is the executable mapping it was found by. `bias` is added to the
    file's addresses to get those in memory. `machine` is the file's e_machine
    (elf(5)). `state` is "replaced" (or "deleted") when the file that `code.path`
    names is another one (or none) and the mapped one can't be opened: `fd` then
    is a copy of the code from memory, which has its exported names only.
    """

    code: Mapping
    bias: int
    machine: int
    build_id: bytes | None
    state: Literal["", "replaced", "deleted"]
    fd: int
    debug: DebugFiles | None

    def close(self) -> None:
        """Close the files."""
        os.close(self.fd)
        if self.debug:
            self.debug.close()


class ObjectOpener:
    """Opens the files behind one reading of a living process's mappings."""

    def __init__(self, process: Path) -> None:
        """Read the mappings of `process`, a directory such as /proc/123."""
        self.process = process
        self.mappings = read_mappings(process)
        self.memory = ProcessMemory(process)
        self.roots = [Root(process / "root"), Root(Path("/"))]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was needed to open the files, not the files."""
        self.memory.close()
        for root in self.roots:
            root.close()

    def open_object(self, mapping: Mapping) -> ObjectFile | None:
        """Open the object whose code is mapped there; None for what is no ELF file."""
        if not mapping.path:
            return None
        headers = self._headers(mapping)
        image = self.memory.read(headers.start, min(headers.end - headers.start, NOTES_SIZE))
        mapped = read_elf_image(image) if image else None
        state: Literal["", "replaced", "deleted"] = ""
        fd = self._open(mapping, mapped)
        if fd is None:
            fd = self._copy(mapping)
            if mapping.inode:
                state = "replaced" if self._has_other(mapping.path) else "deleted"
        if fd is None:
            return None
        elf = read_elf(fd)
        bias = elf.bias(mapping.start, mapping.offset) if elf else None
        if elf is None or bias is None:
            os.close(fd)
            return None
        debug = find_debug_files(elf, mapping.path, self.roots)
        return ObjectFile(mapping, bias, elf.machine, elf.build_id, state, fd, debug)

    def _headers(self, mapping: Mapping) -> Mapping:
        """The mapping of the same file's first page that belongs to `mapping`."""
        firsts = [
            other
            for other in self._of_same_file(mapping)
            if other.offset == 0 and other.start <= mapping.start
        ]
        return max(firsts, key=lambda first: first.start, default=mapping)

    def _of_same_file(self, mapping: Mapping) -> list[Mapping]:
        file = (mapping.device, mapping.inode, mapping.path)
        return [other for other in self.mappings if (other.device, other.inode, other.path) == file]

    def _open(self, mapping: Mapping, mapped: Elf | None) -> int | None:
        """Open the file that is mapped, not one that has its name by now."""
        if not mapping.inode:
            return None
        link = self.process / "map_files" / mapping.range
        try:
            # The mapped file itself, also when deleted; needs CAP_CHECKPOINT_RESTORE.
            if not link.is_file():
                return None
            fd: int | None = os.open(link, os.O_RDONLY | os.O_CLOEXEC)
        except (PermissionError, FileNotFoundError):
            fd = self.roots[0].open(mapping.path)
        if fd is None or _is_mapped(fd, mapping, mapped):
            return fd
        os.close(fd)
        return None

    def _has_other(self, path: str) -> bool:
        fd = self.roots[0].open(path)
        if fd is not None:
            os.close(fd)
        return fd is not None

    def _copy(self, mapping: Mapping) -> int | None:
        """Copy an object's code and unwind information out of memory."""
        loaded = [other for other in self._of_same_file(mapping) if not other.writable]
        return self.memory.copy_object(loaded)


def _is_mapped(fd: int, mapping: Mapping, mapped: Elf | None) -> bool:
    if mapped and mapped.build_id:
        elf = read_elf(fd)
        return elf is not None and elf.build_id == mapped.build_id
    return os.fstat(fd).st_ino == mapping.inode
