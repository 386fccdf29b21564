"""A Sample, or what else is reported, as one line of JSON.

docs/reference/sample.schema.json describes a Sample's.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from kernel_delay.model import Sample

_NOT_PRINTABLE_ASCII = re.compile(r"[^\x20-\x7e]")

# Of a Sample: what there may be a million of.
_LONG = ("syscall_events", "timeline")

_ITEMS_AT_ONCE = 1000


def render(document: msgspec.Struct) -> str:
    """One JSON object and a newline.

    It is ASCII alone: all else stands as `\\uXXXX`, so that a name can't reach
    a terminal as a control character, and no locale matters.
    """
    return "".join(chunks(document))


def chunks(document: msgspec.Struct) -> Iterator[str]:
    """The same in pieces: a million events are never in memory as text all at once."""
    if not isinstance(document, Sample):
        yield ascii_json(document) + "\n"
        return
    long = {name: items for name in _LONG if (items := getattr(document, name)) is not None}
    rest = ascii_json(msgspec.structs.replace(document, **dict.fromkeys(long, ())))
    for name, items in long.items():
        # A string's quotes are escaped, so this is not found in any.
        empty = f'"{name}":[]'
        before, rest = rest.split(empty)
        yield before + empty[:-1]
        yield from _items(items)
    yield f"{rest}\n"


def _items(items: Iterable[object]) -> Iterator[str]:
    remaining = iter(items)
    separator = ""
    while batch := list(islice(remaining, _ITEMS_AT_ONCE)):
        yield separator + ascii_json(batch)[1:-1]
        separator = ","
    # Of the empty list that they are put in.
    yield "]"


def ascii_json(what: object) -> str:
    """`what` as JSON: ASCII alone, and no newline."""
    return _NOT_PRINTABLE_ASCII.sub(_escape, msgspec.json.encode(what).decode())


def _escape(match: re.Match[str]) -> str:
    # Above U+FFFF JSON has surrogate pairs only (RFC 8259, section 7).
    utf16 = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{utf16[i : i + 4]}" for i in range(0, len(utf16), 4))
