"""The memory of a living process, through /proc/PID/mem (proc_pid_mem(5))."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from kernel_delay.host.process_memory import MemoryFile
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.mappings import Mapping

BLOCK = 1 << 20

# Elf32_Ehdr and Elf64_Ehdr in elf(5), by e_ident[EI_CLASS]: e_shoff, and e_shnum with e_shstrndx.
SECTION_HEADERS = {
    1: ((32, bytes(4)), (48, bytes(4))),
    2: ((40, bytes(8)), (60, bytes(4))),
}
EI_CLASS = 4


PAGE_BYTES = os.sysconf("SC_PAGESIZE")

Read = Callable[[int, int], bytes]
"""Reads memory of the process: an address and a size; less where it can't be read."""


class Pages:
    """Pages of a process's memory, each read once until all are forgotten.

    A read of some bytes takes as long as that of a page: another process reads.
    """

    def __init__(self, read: Read) -> None:
        """Know none yet."""
        self._read = read
        self._known: dict[int, bytes] = {}

    def forget(self) -> None:
        """Read all of them again from now on."""
        self._known.clear()

    def read(self, address: int, size: int) -> bytes:
        """Read up to `size` bytes, from known pages where there are any."""
        start, skipped = divmod(address, PAGE_BYTES)
        if size <= 0 or address < 0 or skipped + size > 2 * PAGE_BYTES:
            return self._read(address, size)
        content = b""
        for page in range(start, (address + size - 1) // PAGE_BYTES + 1):
            known = self._known.get(page)
            if known is None:
                known = self._read(page * PAGE_BYTES, PAGE_BYTES)
                if len(known) < PAGE_BYTES:
                    return self._read(address, size)
                self._known[page] = known
            content += known
        return content[skipped : skipped + size]


class ProcessMemory(MemoryFile):
    """Reads a process's memory; takes the right to ptrace(2) it."""

    def __init__(self, process: Path, bounds: Bounds) -> None:
        """Open the memory of `process`, a directory such as /proc/123; read within `bounds`."""
        super().__init__(process, bounds.memory)
        self._bounds = bounds

    def copy_object(self, mappings: Sequence[Mapping]) -> int | None:
        """Put an object's mappings at their file offsets into a new memory file.

        None when there is nothing to read, or more than the bounds allow: reading
        fills the memory of both processes. The section headers are not loaded,
        so the copy of a file has none; the vDSO's are.
        """
        size = sum(mapping.end - mapping.start for mapping in mappings)
        if not mappings:
            return None
        if not self._bounds.may_copy(size):
            self._bounds.pass_over(
                f"{mappings[0].path} has no function names: its file is out of reach,"
                " and it is too large to be copied out of memory"
            )
            return None
        copy = os.memfd_create("object", os.MFD_CLOEXEC)
        try:
            for mapping in mappings:
                self._copy(mapping, copy)
            if any(mapping.inode for mapping in mappings):
                (elf_class,) = os.pread(copy, 1, EI_CLASS) or (0,)
                for offset, zeros in SECTION_HEADERS.get(elf_class, ()):
                    os.pwrite(copy, zeros, offset)
        except OSError:  # a file offset that no file can have
            os.close(copy)
            return None
        return copy

    def _copy(self, mapping: Mapping, copy: int) -> None:
        for address in range(mapping.start, mapping.end, BLOCK):
            content = self.read(address, min(BLOCK, mapping.end - address))
            if content.count(0) < len(content):  # what is zero takes no memory
                os.pwrite(copy, content, mapping.offset + address - mapping.start)
