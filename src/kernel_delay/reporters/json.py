"""A Sample, or what else is reported, as one line of JSON.

docs/sample.schema.json describes a Sample's.
"""

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from kernel_delay.model import Sample

_NOT_PRINTABLE_ASCII = re.compile(r"[^\x20-\x7e]")

# A string's quotes are escaped, so this is not found in any.
_NO_EVENTS = '"syscall_events":[]'

_EVENTS_AT_ONCE = 1000


def render(document: msgspec.Struct) -> str:
    """One JSON object and a newline.

    It is ASCII alone: all else stands as `\\uXXXX`, so that a name can't reach
    a terminal as a control character, and no locale matters.
    """
    return "".join(chunks(document))


def chunks(document: msgspec.Struct) -> Iterator[str]:
    """The same in pieces: a million events are never in memory as text all at once."""
    if not isinstance(document, Sample) or document.syscall_events is None:
        yield ascii_json(document) + "\n"
        return
    events = iter(document.syscall_events)
    others = msgspec.structs.replace(document, syscall_events=())
    before, after = ascii_json(others).split(_NO_EVENTS)
    yield before + _NO_EVENTS[:-1]
    separator = ""
    while batch := list(islice(events, _EVENTS_AT_ONCE)):
        yield separator + ascii_json(batch)[1:-1]
        separator = ","
    yield f"]{after}\n"


def ascii_json(what: object) -> str:
    """`what` as JSON: ASCII alone, and no newline."""
    return _NOT_PRINTABLE_ASCII.sub(_escape, msgspec.json.encode(what).decode())


def _escape(match: re.Match[str]) -> str:
    # Above U+FFFF JSON has surrogate pairs only (RFC 8259, section 7).
    utf16 = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{utf16[i : i + 4]}" for i in range(0, len(utf16), 4))
