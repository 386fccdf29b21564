"""Text for people: what others wrote made safe to print, and lengths of time in their units.

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


NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_UNITS = (("s", NS_PER_S), ("ms", NS_PER_MS), ("µs", NS_PER_US))

# From here on minutes say more than seconds.
_LONG_S = 1_000
_S_PER_MINUTE, _S_PER_HOUR, _S_PER_DAY = 60, 3_600, 86_400


def brief(ns: int) -> str:
    """Return a length as `353 ms`, and from 1,000 s on as `2 h 13 min`."""
    seconds = ns // NS_PER_S
    if seconds >= _LONG_S:
        return _long(seconds)
    for unit, size in _UNITS:
        value = ns / size
        # What is rounded to 1 of a unit is one.
        if value >= 0.9995:
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
    return f"{ns} ns"


def _long(seconds: int) -> str:
    if seconds >= _S_PER_DAY:
        return f"{seconds // _S_PER_DAY:,} d {seconds % _S_PER_DAY // _S_PER_HOUR} h"
    hours, minutes = seconds // _S_PER_HOUR, seconds % _S_PER_HOUR // _S_PER_MINUTE
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
