"""Names of Go's functions, by the table that the runtime has for its own tracebacks.

.gopclntab stays in a stripped file. Its form is src/internal/abi/symtab.go and
src/debug/gosym/pclntab.go, and since Go 1.18 the same; older ones are not read.
"""

import struct
from typing import Self

from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.elf import read_headers, reader

GO_1_18, GO_1_20 = 0xFFFFFFF0, 0xFFFFFFF1
# magic, two zeros, the unit of code, the size of a pointer; then words of eight bytes.
START = struct.Struct("<IHBB")
WORDS = struct.Struct("<8Q")
ENTRY = struct.Struct("<II")
FUNCTION = struct.Struct("<Ii")
TEXT_START = START.size + 16
LONGEST_NAME = 1024

OUTERMOST = frozenset({"runtime.goexit", "runtime.mstart", "runtime.rt0_go"})
"""Of a goroutine, a thread and the first thread: TOPFRAME in src/runtime/asm_amd64.s (1.19)."""

TABLES = (b".gopclntab", b".data.rel.ro.gopclntab")

RELA_SIZE = 24

RELOCATIONS_BYTES = 64 << 20
"""A larger .rela.dyn is not looked into; that of a Go program has some per cent of its size."""


class GoFunctions:
    """The functions of one Go program."""

    def __init__(self, table: bytes, text_start: int) -> None:
        """Use a table whose addresses are those above `text_start`; ValueError if it is none."""
        if len(table) < START.size + WORDS.size:
            raise ValueError("too short")
        magic, zeros, _, pointer = START.unpack_from(table)
        if magic not in (GO_1_18, GO_1_20) or zeros or pointer != 8:
            raise ValueError("unknown form")
        count, _, reported, names, _, _, _, functions = WORDS.unpack_from(table, START.size)
        if functions + (count + 1) * ENTRY.size > len(table) or names > len(table):
            raise ValueError("cut")
        self._table = table
        self._count = count
        self._names = names
        self._functions = functions
        self._text_start = reported or text_start

    @classmethod
    def read(cls, fd: int, path: str, bounds: Bounds) -> Self | None:
        """Read those of an open ELF file, which is `path`; None where it has no such table."""
        found = read_go_table(fd, path, bounds)
        if found is None:
            return None
        try:
            return cls(*found)
        except ValueError:
            return None

    def find(self, address: int) -> tuple[str, int] | None:
        """Return the function at an address of the file: its name, and the offset in it."""
        offset = address - self._text_start
        if offset < 0:
            return None
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[0] <= offset:
                low = middle + 1
            else:
                high = middle
        # The last entry is the end of all.
        if not low or (low == self._count and offset >= self._entry(low)[0]):
            return None
        start, place = self._entry(low - 1)
        name = self._name(place)
        return (name, offset - start) if name else None

    def _entry(self, index: int) -> tuple[int, int]:
        start, place = ENTRY.unpack_from(self._table, self._functions + index * ENTRY.size)
        return start, place

    def _name(self, place: int) -> str | None:
        at = self._functions + place
        if at + FUNCTION.size > len(self._table):
            return None
        begin = self._names + FUNCTION.unpack_from(self._table, at)[1]
        if not self._names <= begin < len(self._table):
            return None
        end = self._table.find(b"\0", begin, begin + LONGEST_NAME)
        return self._table[begin:end].decode(errors="backslashreplace") if end > begin else None


def read_go_table(fd: int, path: str, bounds: Bounds) -> tuple[bytes, int] | None:
    """Read .gopclntab, and the address in the file that its offsets are above.

    None where there is no such table, or `bounds` doesn't allow for it. The
    table has that address itself, but for position-independent files, where a
    relocation puts it there, and from Go 1.26 on, where it is .text's.
    """
    headers = read_headers(reader(fd))
    if headers is None:
        return None
    for name in TABLES:
        section = headers.section(name)
        if section is None or not section.size:
            continue
        if not bounds.may_keep_table(section.size):
            bounds.pass_over(f"{path} has no function names: its .gopclntab is too large")
            return None
        text_section = headers.section(b".text")
        start = text_section.address if text_section else 0
        relocations = headers.content(b".rela.dyn", RELOCATIONS_BYTES)
        reported = _relocated(relocations, section.address + TEXT_START)
        return headers.read(section.offset, section.size), reported or start
    return None


def _relocated(relocations: bytes, address: int) -> int | None:
    """Return the addend of the relocation of the word at an address: Elf64_Rela in elf(5)."""
    at = relocations.find((address & (1 << 64) - 1).to_bytes(8, "little"))
    if at < 0 or at % RELA_SIZE:
        return None
    return int.from_bytes(relocations[at + 16 : at + RELA_SIZE], "little")
