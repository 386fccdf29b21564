"""How user stacks are taken: how large their buffer is, without which frames, by which tables."""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.maps import Map

if TYPE_CHECKING:
    from kernel_delay.symbols import CodeRange, LargeFrame


MEMINFO = Path("/proc/meminfo")

PER_CPU_BYTES = 16 << 20
"""A thousand stacks of four pages fit into its half; a CPU makes some 50,000 a second."""

SMALLEST_BYTES, LARGEST_BYTES = 4 << 20, 256 << 20

SHARE = 64
"""At most this part of the memory that is available is taken."""


def default_pages() -> int:
    """Return a size by this machine's CPUs and memory, in pages, a power of two."""
    return buffer_pages(os.cpu_count() or 1, available_bytes())


def buffer_pages(cpus: int, available: int) -> int:
    """Return the size for this number of CPUs and bytes of available memory."""
    size = min(cpus * PER_CPU_BYTES, available // SHARE, LARGEST_BYTES)
    pages = max(size, SMALLEST_BYTES) // mmap.PAGESIZE
    return 1 << pages.bit_length() - 1


def available_bytes() -> int:
    """Return how much memory can be had without swapping: MemAvailable, proc_meminfo(5)."""
    fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) << 10


LARGE_FRAME = int(lib.LARGE_FRAME)
"""Bytes that a frame must have to be one."""

LARGE_FRAMES = int(lib.LARGE_FRAMES)

FILTER_BITS = 64 * int(lib.FRAME_FILTER_WORDS)


class LargeFrames:
    """The struct large_frames that the programs read."""

    def __init__(self, memory: mmap.mmap) -> None:
        """Write to `memory`, which is shared with the programs."""
        self._table = ffi.from_buffer("struct large_frames *", memory)
        self._written: tuple[list[LargeFrame], list[tuple[int, int]]] = ([], [])

    def write(self, frames: "Sequence[LargeFrame]", code: Sequence[tuple[int, int]]) -> None:
        """Pass them these frames and these ranges of code; both sorted.

        Where there are more ranges than there is room for none are passed: then
        stacks are copied whole.
        """
        reported = (list(frames), list(code)) if len(code) <= lib.CODE_RANGES else ([], [])
        if reported == self._written:
            return
        self._table.frame_count = self._table.code_count = 0
        # A program that began before may still look at what is there.
        lib.wait_for_programs()
        self._write(*reported)
        self._written = reported

    def _write(self, frames: "list[LargeFrame]", code: list[tuple[int, int]]) -> None:
        bits = 0
        for start, end, _, _ in frames:
            first, last = start // lib.STACK_PAGE, end // lib.STACK_PAGE
            for page in range(first, min(last, first + FILTER_BITS) + 1):
                bits |= 1 << page % FILTER_BITS
        for word in range(lib.FRAME_FILTER_WORDS):
            self._table.filter[word] = bits >> 64 * word & (1 << 64) - 1
        self._table.frames[0 : len(frames)] = frames
        self._table.code[0 : len(code)] = code
        self._table.code_count = len(code)
        lib.wait_for_programs()
        self._table.frame_count = len(frames)


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
