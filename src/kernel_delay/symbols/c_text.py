"""Names as libdw has them of another program's files."""

from typing import TYPE_CHECKING

from kernel_delay.symbols._libdw import ffi

if TYPE_CHECKING:
    from kernel_delay.cdata import Pointer

NAME_BYTES = 16 << 10
"""The longest name that is read; C++ has some of a few thousand."""


def text(string: "Pointer[bytes]") -> str:
    """Turn a C string of another program into text; bytes that are no UTF-8 print as \\xNN."""
    return ffi.string(string, NAME_BYTES).decode(errors="backslashreplace")
