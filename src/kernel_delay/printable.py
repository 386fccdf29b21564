"""Untrusted text made safe to print, and what a process writes in place of its name.

Thread, process and interrupt names are chosen by other processes and may hold
anything but NUL: a newline forges a line of the report, an escape sequence
drives the reader's terminal.
"""

import os
from collections.abc import Sequence


def printable(text: str) -> str:
    """`text` with every character that is not printable as a Python escape.

    Control and format characters (U+202E among them), separators other than
    the space, lone surrogates and unassigned code points become `\\xNN`,
    `\\uNNNN` or `\\UNNNNNNNN`; all else is unchanged.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def encodable(text: str | os.PathLike[str]) -> str:
    """Text that need not be UTF-8, as an argument or a path, as text that can be encoded.

    A byte that is not UTF-8 becomes `\\xNN`.
    """
    return os.fsencode(text).decode(errors="backslashreplace")


def _escape(character: str) -> str:
    # Spelt out rather than left to repr(), which has short forms (\n, \t) of
    # a width of their own.
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def title_in(arguments: Sequence[str]) -> str | None:
    """Return what a process wrote in place of its arguments, as setproctitle(3) does, or None.

    That is one argument of several words, and no path.
    """
    if len(arguments) != 1 or arguments[0].startswith("/"):
        return None
    title = arguments[0].strip()
    return title if " " in title else None
