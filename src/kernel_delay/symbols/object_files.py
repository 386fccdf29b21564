"""The ELF files behind a process's code: the very files that are mapped, opened."""

import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Literal, Self

from msgspec import Struct

from kernel_delay.host.stored_files import Root, StoredFile
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.debug_files import DebugFiles, find_debug_files
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
    `copied` is how many bytes of it and of its debug files are copies.
    """

    code: Mapping
    bias: int
    machine: int
    build_id: bytes | None
    state: Literal["", "replaced", "deleted"]
    copied: int
    fd: int
    debug: DebugFiles | None

    def close(self) -> None:
        """Close the files."""
        os.close(self.fd)
        if self.debug:
            self.debug.close()


class ObjectOpener:
    """Opens the files behind one reading of a living process's mappings."""

    def __init__(self, process: Path, bounds: Bounds) -> None:
        """Read the mappings of `process`, a directory such as /proc/123, within `bounds`."""
        self.process = process
        self.mappings = read_mappings(process)
        self.memory = ProcessMemory(process, bounds)
        self.roots = [Root(process / "root", bounds.files), Root(Path("/"), bounds.files)]
        self._bounds = bounds
        self._files = _FileMappings(self.mappings)
        self._elfs: dict[tuple[str, int, str], Elf | None] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was needed to open the files, not the files."""
        self.memory.close()
        for root in self.roots:
            root.close()

    def needs_no_opening(
        self, mapping: Mapping, objects: Container[tuple[str, int | None]]
    ) -> bool:
        """Whether another mapping of the file showed that this is of one of `objects`, or of none.

        `objects` are paths and biases.
        """
        if mapping.file not in self._elfs:
            return not mapping.path
        elf = self._elfs[mapping.file]
        bias = elf.bias(mapping.start, mapping.offset) if elf else None
        return bias is None or (mapping.path, bias) in objects

    def open_object(self, mapping: Mapping) -> ObjectFile | None:
        """Open the object whose code is mapped there; None for what is no ELF file."""
        image = self._files.image(mapping)
        first = image[0]
        head = self.memory.read(first.start, min(first.end - first.start, NOTES_SIZE))
        state: Literal["", "replaced", "deleted"] = ""
        is_image, copied = False, 0
        mapped = read_elf_image(head)
        file = self._open(mapping, mapped)
        fd: int | None = None
        if file is not None:
            fd, copied = file.fd, file.copied
            self._bounds.count_copy(copied)
        elif mapped is not None:
            loaded = [other for other in image if not other.writable]
            fd = self.memory.copy_object(loaded)
            is_image, copied = True, sum(other.end - other.start for other in loaded)
            if mapping.inode:
                state = "replaced" if self._has_other(mapping.path) else "deleted"
        if fd is None:
            return None
        elf = read_elf(fd) if self._bounds.may_read(fd, mapping.path) else None
        bias = elf.bias(mapping.start, mapping.offset) if elf else None
        if not is_image:
            self._elfs[mapping.file] = elf
        if elf is None or bias is None:
            os.close(fd)
            return None
        self._bounds.held_bytes += copied
        debug = find_debug_files(elf, mapping.path, self.roots, self._bounds)
        if debug is not None:
            self._bounds.held_bytes += debug.copied
            copied += debug.copied
        return ObjectFile(mapping, bias, elf.machine, elf.build_id, state, copied, fd, debug)

    def _open(self, mapping: Mapping, mapped: Elf | None) -> StoredFile | None:
        """Open the file that is mapped, not one that has its name by now."""
        if not mapping.inode:
            return None
        try:
            # The mapped file itself, also when deleted; needs CAP_CHECKPOINT_RESTORE.
            file = self.roots[0].open_mapped(self.process / "map_files" / mapping.range)
            # Whatever the process has made of its headers in memory.
            if file is None or file.status.inode == mapping.inode:
                return file
        except (PermissionError, FileNotFoundError):
            file = self.roots[0].open(mapping.path)
        if file is None or _is_mapped(file, mapping, mapped):
            return file
        os.close(file.fd)
        return None

    def _has_other(self, path: str) -> bool:
        file = self.roots[0].open(path)
        if file is not None:
            os.close(file.fd)
        return file is not None


class _FileMappings:
    """The mappings of each file, by address."""

    def __init__(self, mappings: Iterable[Mapping]) -> None:
        self._of_file: dict[tuple[str, int, str], list[Mapping]] = defaultdict(list)
        for mapping in sorted(mappings, key=lambda mapping: mapping.start):
            self._of_file[mapping.file].append(mapping)
        self._firsts = {
            file: [at for at, mapping in enumerate(of_file) if mapping.offset == 0]
            for file, of_file in self._of_file.items()
        }

    def image(self, mapping: Mapping) -> list[Mapping]:
        """The mappings of the file that belong together with `mapping`.

        They begin with the last of the file's first page below it, if there is
        any, or else with itself, and end before the next such.
        """
        of_file, firsts = self._of_file[mapping.file], self._firsts[mapping.file]
        next_first = bisect_right(firsts, mapping.start, key=lambda at: of_file[at].start)
        if not next_first:
            return [mapping]
        end = firsts[next_first] if next_first < len(firsts) else len(of_file)
        return of_file[firsts[next_first - 1] : end]


def _is_mapped(file: StoredFile, mapping: Mapping, mapped: Elf | None) -> bool:
    if mapped and mapped.build_id:
        elf = read_elf(file.fd)
        return elf is not None and elf.build_id == mapped.build_id
    return file.status.inode == mapping.inode
