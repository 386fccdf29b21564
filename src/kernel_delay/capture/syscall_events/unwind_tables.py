"""Gives the programs the tables by which they walk the target's stacks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernel_delay.libbpf import Map
from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.symbols import CodeRange

WORDS = int(lib.UNWIND_WORDS)
ENTRY_BYTES = ffi.sizeof("struct unwind_entry")
WORD_BYTES = ENTRY_BYTES // WORDS

ADDRESS_BITS = 48
"""User addresses have fewer; above them the programs keep a table's generation."""

# CFA_UNKNOWN is 0.
UNKNOWN_RULE = bytes(WORD_BYTES)


class UnwindTables:
    """The map of the table that the programs use."""

    def __init__(self, table_map: Map) -> None:
        """Put tables into the map `unwind_tables`, which is loaded."""
        self._map = table_map
        self._written: tuple[int, Sequence[CodeRange]] | None = None
        self._generation = 0

    def write(self, start_stack: int, ranges: "Sequence[CodeRange]") -> None:
        """Have stacks walked by these ranges, sorted, of the process whose stack began there."""
        if (start_stack, ranges) == self._written:
            return
        self._generation = (self._generation + 1) % (1 << 64 - ADDRESS_BITS)
        self._map.put_array(0, self._table(start_stack, ranges), ENTRY_BYTES)
        self._written = start_stack, ranges

    def _table(self, start_stack: int, ranges: "Sequence[CodeRange]") -> memoryview:
        files = {found.rows: 0 for found in ranges if found.rows is not None}
        rules = UNKNOWN_RULE + b"".join(rows.rules for rows in files)
        first_rule = 1 + len(ranges)
        entries = first_rule + _entries(len(rules) // WORD_BYTES)
        for rows in files:
            files[rows] = entries
            entries += _entries(len(rows))
        table = ffi.new("struct unwind_entry[]", entries)
        header = ffi.cast("struct unwind_header *", table)
        header.generation = self._generation << ADDRESS_BITS
        header.start_stack = start_stack
        header.range_count = len(ranges)
        header.first_rule = first_rule
        for place, found in enumerate(ranges, start=1):
            entry = ffi.cast("struct unwind_range *", ffi.addressof(table, place))
            entry.start, entry.end = found.start, found.end
            if found.rows is not None:
                entry.bias = found.rows.bias & (1 << 64) - 1
                entry.first_row, entry.row_entries = files[found.rows], _entries(len(found.rows))
        content = memoryview(ffi.buffer(table)).cast("B")
        at = first_rule * ENTRY_BYTES
        content[at : at + len(rules)] = rules
        number = 1
        for rows, place in files.items():
            rows.copy(number, ffi.cast("uint64_t *", ffi.addressof(table, place)))
            number += len(rows.rules) // WORD_BYTES
        return content


def _entries(words: int) -> int:
    return -(-words // WORDS)
