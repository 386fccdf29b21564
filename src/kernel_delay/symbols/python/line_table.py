"""The line of an instruction, by a code object's co_linetable (CPython 3.11 to 3.14).

The format is that of Objects/locations.md in CPython's source: one entry after the other, each
with a first byte whose bit 7 is set, a code in bits 3 to 6, and its length minus one in bits
0 to 2. A length counts code units of two bytes.
"""

from collections.abc import Iterator

UNIT_BYTES = 2

_FIRST = 0x80
_SHORT_CODES = 10
_ONE_LINE_CODES = range(10, 13)
_NO_COLUMN = 13
_LONG = 14
_NO_LOCATION = 15

_MOST_VARINT_BYTES = 6
"""Of 6 bits each: an int has 32."""


def line_at(table: bytes, first_line: int, offset: int) -> int | None:
    """Find the line of an instruction.

    Args:
        table: The content of co_linetable. It may be anything.
        first_line: The value of co_firstlineno.
        offset: The offset of the instruction in the code, in bytes. Negative: the code has not
            begun.

    Returns:
        The line. None: the instruction has none, or the table does not cover it.
    """
    if offset < 0:
        return first_line
    for start, end, line in lines(table, first_line):
        if start <= offset < end:
            return line
    return None


def lines(table: bytes, first_line: int) -> Iterator[tuple[int, int, int | None]]:
    """Go through the entries of a table; it ends where no entry begins.

    Args:
        table: The content of co_linetable. It may be anything.
        first_line: The value of co_firstlineno.

    Yields:
        The first offset in the code, the offset behind the last one, and the line or None.
    """
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
