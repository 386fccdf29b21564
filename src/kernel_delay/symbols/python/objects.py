"""Objects in the memory of the process: code objects, strings and bytes."""

import struct

from msgspec import Struct

from kernel_delay.symbols.memory import Read
from kernel_delay.symbols.python.layouts import Layout
from kernel_delay.symbols.python.line_table import line_at

LONGEST_TEXT_BYTES = 1024
"""Of a name or a path; what is longer is cut."""

LONGEST_TABLE_BYTES = 256 << 10
"""Of a co_linetable; that of 10,000 lines of assignments has some 150 KiB."""

TABLES_BYTES = 4 << 20
"""What is decoded of line tables in all, of one process: some seconds of work."""

POINTER_BYTES = 8

_WORD = struct.Struct("=Q")
_INT = struct.Struct("=i")

# PyASCIIObject.state, the same bits from 3.8 to 3.14 with a GIL: Include/cpython/unicodeobject.h.
_KIND_SHIFT, _KIND_MASK = 2, 7
_COMPACT, _ASCII = 1 << 5, 1 << 6

# By the bytes of a character: PyUnicode_1BYTE_KIND, _2BYTE_KIND and _4BYTE_KIND.
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


class Code(Struct, frozen=True):
    """A code object: its fields.

    Attributes:
        address: Where it is.
        function: The qualified name, or the name.
        file: The file.
        first_line: The first line.
        line_table: Where the bytes of its line table are.
    """

    address: int
    function: str
    file: str
    first_line: int
    line_table: int


class Objects:
    """Reads objects of one process; what cannot be read or is no such object is None."""

    def __init__(self, read: Read, layout: Layout, code_type: int | None) -> None:
        """Read none yet.

        Args:
            read: Reads memory of the process.
            layout: Where the fields are.
            code_type: The address of PyCode_Type. None: not known, so that no type is compared.
        """
        self._read = read
        self._layout = layout
        self._code_type = code_type
        self._code_bytes = POINTER_BYTES + max(
            layout.type, layout.filename, layout.name, layout.qualified_name, layout.line_table,
            layout.first_line,
        )  # fmt: skip
        self._tables_left = TABLES_BYTES
        self._codes: dict[tuple[int, ...], Code] = {}
        self._lines: dict[tuple[Code, int], int | None] = {}

    def word(self, address: int) -> int:
        """Read a pointer.

        Args:
            address: Where it is.

        Returns:
            Its value; 0 if it cannot be read.
        """
        return word_in(self._read(address, POINTER_BYTES), 0)

    def code(self, address: int) -> Code | None:
        """Read a code object.

        Args:
            address: Where it is.

        Returns:
            Its fields. None: there is no code object.
        """
        layout = self._layout
        content = self._read(address, self._code_bytes)
        if len(content) < self._code_bytes:
            return None
        if self._code_type is not None and word_in(content, layout.type) != self._code_type:
            return None
        places = (layout.filename, layout.name, layout.qualified_name, layout.line_table)
        filename, name, qualified_name, line_table = (word_in(content, at) for at in places)
        (first_line,) = _INT.unpack_from(content, layout.first_line)
        key = (address, filename, name, qualified_name, line_table, first_line)
        known = self._codes.get(key)
        if known is not None:
            return known
        function, file = self.text(qualified_name), self.text(filename)
        if function is None:
            function = self.text(name)
        if function is None or file is None:
            return None
        found = self._codes[key] = Code(address, function, file, first_line, line_table)
        return found

    def line(self, code: Code, instruction: int) -> int | None:
        """Find the line of an instruction.

        Args:
            code: The code that has it.
            instruction: Its address, or where the layout has `instruction_bytes` its number.

        Returns:
            The line. None: not known.
        """
        layout = self._layout
        if layout.instruction_bytes is None:
            offset = instruction - code.address - layout.code
        else:
            offset = instruction * layout.instruction_bytes
        key = code, offset
        if key not in self._lines:
            table = self._bytes(code.line_table)
            self._lines[key] = (
                line_at(table, code.first_line, offset, layout.line_format)
                if table is not None
                else None
            )
        return self._lines[key]

    def text(self, address: int) -> str | None:
        """Read a compact string (PEP 393).

        Args:
            address: Where the object is.

        Returns:
            The string, LONGEST_TEXT_BYTES of it. None: there is none.
        """
        layout = self._layout
        head = self._read(address, layout.ascii_size)
        if len(head) < layout.ascii_size or layout.ascii_size < layout.text_state + 4:
            return None
        length = word_in(head, layout.text_length)
        state = head[layout.text_state]
        kind = state >> _KIND_SHIFT & _KIND_MASK
        encoding = _ENCODINGS.get(kind)
        if encoding is None or not state & _COMPACT:
            return None
        at = address + (layout.ascii_size if state & _ASCII else layout.compact_size)
        size = min(length * kind, LONGEST_TEXT_BYTES)
        content = self._read(at, size)
        if len(content) < size:
            return None
        return content.decode(encoding, "backslashreplace")

    def _bytes(self, address: int) -> bytes | None:
        layout = self._layout
        head = self._read(address, layout.bytes_content)
        if len(head) < max(layout.bytes_content, layout.bytes_length + POINTER_BYTES):
            return None
        size = word_in(head, layout.bytes_length)
        if size > min(LONGEST_TABLE_BYTES, self._tables_left):
            return None
        self._tables_left -= size
        content = self._read(address + layout.bytes_content, size)
        return content if len(content) == size else None


def int_in(content: bytes, at: int) -> int:
    """Return the int at an offset.

    Args:
        content: What was read.
        at: The offset.

    Returns:
        The value; 0 if the content ends before.
    """
    return int(_INT.unpack_from(content, at)[0]) if at + _INT.size <= len(content) else 0


def word_in(content: bytes, at: int) -> int:
    """Return the word of 64 bits at an offset.

    Args:
        content: What was read.
        at: The offset.

    Returns:
        The value; 0 if the content ends before.
    """
    return int(_WORD.unpack_from(content, at)[0]) if at + _WORD.size <= len(content) else 0
