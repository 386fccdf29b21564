"""The memory of a living process, through /proc/PID/mem (proc_pid_mem(5))."""

import os
from collections.abc import Sequence
from pathlib import Path

from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.mappings import Mapping

BLOCK = 1 << 20

# Elf32_Ehdr and Elf64_Ehdr in elf(5), by e_ident[EI_CLASS]: e_shoff, and e_shnum with e_shstrndx.
SECTION_HEADERS = {
    1: ((32, bytes(4)), (48, bytes(4))),
    2: ((40, bytes(8)), (60, bytes(4))),
}
EI_CLASS = 4


class ProcessMemory:
    """Reads a process's memory; needs the right to ptrace(2) it."""

    def __init__(self, process: Path) -> None:
        """Open the memory of `process`, a directory such as /proc/123."""
        self._fd = os.open(process / "mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)

    def read(self, address: int, size: int) -> bytes:
        """Read up to `size` bytes; none where nothing is mapped or it can't be read."""
        try:
            return os.pread(self._fd, size, address)
        except (OSError, OverflowError):
            return b""

    def copy_object(self, mappings: Sequence[Mapping], bounds: Bounds) -> int | None:
        """Put an object's mappings at their file offsets into a new memory file.

        None when there is nothing to read, or more than `bounds` allows: reading
        fills the memory of both processes. The section headers are not loaded,
        so the copy of a file has none; the vDSO's are.
        """
        size = sum(mapping.end - mapping.start for mapping in mappings)
        if not mappings:
            return None
        if not bounds.may_copy(size):
            bounds.pass_over(
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
