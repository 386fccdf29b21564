"""The line of an instruction, by the line table of a code object (CPython 3.8 to 3.14).

"locations": co_linetable of 3.11 to 3.14. The format is that of Objects/locations.md in CPython's
source: one entry after the other, each with a first byte whose bit 7 is set, a code in bits 3 to
6, and its length minus one in bits 0 to 2. A length counts code units of two bytes.

"line_deltas": co_linetable of 3.10. The format is that of Objects/lnotab_notes.txt (3.10): pairs
of a length in bytes and a signed change of the line, which applies to that length. A change of
-128: no line.

"lnotab": co_lnotab of 3.8 and 3.9. The format is that of Objects/lnotab_notes.txt (3.9): pairs of
a length in bytes and a signed change of the line, which applies behind that length.
"""

from collections.abc import Iterator
from typing import Literal

LineFormat = Literal["locations", "line_deltas", "lnotab"]

UNIT_BYTES = 2

_FIRST = 0x80
_SHORT_CODES = 10
_ONE_LINE_CODES = range(10, 13)
_NO_COLUMN = 13
_LONG = 14
_NO_LOCATION = 15

_NO_LINE = -128

_LAST_OFFSET = 1 << 32
"""A co_lnotab does not say where the code ends."""

_MOST_VARINT_BYTES = 6
"""Of 6 bits each: an int has 32."""


def line_at(
    table: bytes, first_line: int, offset: int, line_format: LineFormat = "locations"
) -> int | None:
    """Find the line of an instruction.

    Args:
        table: The content of the table. It may be anything.
        first_line: The value of co_firstlineno.
        offset: The offset of the instruction in the code, in bytes. Negative: the code has not
            begun.
        line_format: The format of the table.

    Returns:
        The line. None: the instruction has none, or the table does not cover it.
    """
    if offset < 0:
        return first_line
    for start, end, line in lines(table, first_line, line_format):
        if start <= offset < end:
            return line
    return None


def lines(
    table: bytes, first_line: int, line_format: LineFormat = "locations"
) -> Iterator[tuple[int, int, int | None]]:
    """Go through the entries of a table; it ends where no entry begins.

    Args:
        table: The content of the table. It may be anything.
        first_line: The value of co_firstlineno.
        line_format: The format of the table.

    Yields:
        The first offset in the code, the offset behind the last one, and the line or None.
    """
    if line_format == "locations":
        yield from _of_locations(table, first_line)
    elif line_format == "line_deltas":
        yield from _of_line_deltas(table, first_line)
    else:
        yield from _of_lnotab(table, first_line)


def _pairs(table: bytes) -> Iterator[tuple[int, int]]:
    """The lengths and the changes of the line."""
    for length, change in zip(table[::2], table[1::2], strict=False):
        yield length, change - 256 if change & 0x80 else change


def _of_lnotab(table: bytes, first_line: int) -> Iterator[tuple[int, int, int | None]]:
    start = end = 0
    line = first_line
    for length, change in _pairs(table):
        end += length
        if end > start:
            yield start, end, line
        start = end
        line += change
    yield start, _LAST_OFFSET, line


def _of_line_deltas(table: bytes, first_line: int) -> Iterator[tuple[int, int, int | None]]:
    end = 0
    line = first_line
    for length, change in _pairs(table):
        start = end
        end += length
        if change != _NO_LINE:
            line += change
        if end > start:
            yield start, end, None if change == _NO_LINE else line


def _of_locations(table: bytes, first_line: int) -> Iterator[tuple[int, int, int | None]]:
    at = offset = 0
    line = first_line
    while at < len(table) and table[at] & _FIRST:
        code = table[at] >> 3 & 0xF
        end = offset + ((table[at] & 7) + 1) * UNIT_BYTES
        if code in _ONE_LINE_CODES:
            line += code - _SHORT_CODES
        elif code in (_NO_COLUMN, _LONG):
            line += _signed_varint(table, at + 1)
        yield offset, end, None if code == _NO_LOCATION else line
        offset = end
        at += 1
        while at < len(table) and not table[at] & _FIRST:
            at += 1


def _signed_varint(table: bytes, at: int) -> int:
    """A number in pieces of 6 bits, the lowest first; the lowest bit of all is its sign."""
    value = 0
    for number, byte in enumerate(table[at : at + _MOST_VARINT_BYTES]):
        value |= (byte & 0x3F) << 6 * number
        if not byte & 0x40:
            break
    return -(value >> 1) if value & 1 else value >> 1
