"""Names of Go's functions, by the table that the runtime has for its own tracebacks.

.gopclntab stays in a stripped file. Its form is src/internal/abi/symtab.go and
src/debug/gosym/pclntab.go, and since Go 1.18 the same; older ones are not read.
"""

import struct
from typing import Self

from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.elf import read_go_table

GO_1_18, GO_1_20 = 0xFFFFFFF0, 0xFFFFFFF1
# magic, two zeros, the unit of code, the size of a pointer; then words of eight bytes.
START = struct.Struct("<IHBB")
WORDS = struct.Struct("<8Q")
ENTRY = struct.Struct("<II")
FUNCTION = struct.Struct("<Ii")
TEXT_START = START.size + 16
LONGEST_NAME = 1024


class GoFunctions:
    """The functions of one Go program."""

    def __init__(self, table: bytes, text_start: int) -> None:
        """Use a table whose addresses are those above `text_start`; ValueError if it is none."""
        if len(table) < START.size + WORDS.size:
            raise ValueError("too short")
        magic, zeros, _, pointer = START.unpack_from(table)
        if magic not in (GO_1_18, GO_1_20) or zeros or pointer != 8:
            raise ValueError("unknown form")
        count, _, told, names, _, _, _, functions = WORDS.unpack_from(table, START.size)
        if functions + (count + 1) * ENTRY.size > len(table) or names > len(table):
            raise ValueError("cut")
        self._table = table
        self._count = count
        self._names = names
        self._functions = functions
        self._text_start = told or text_start

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
