"""A Sample as one line of JSON; docs/sample.schema.json describes it."""

import re

import msgspec

from kernel_delay.model import Sample

_NOT_PRINTABLE_ASCII = re.compile(r"[^\x20-\x7e]")


def render(sample: Sample) -> str:
    """One JSON object and a newline.

    It is ASCII alone: all else stands as `\\uXXXX`, so that a name can't reach
    a terminal as a control character, and no locale matters.
    """
    encoded = msgspec.json.encode(sample).decode()
    return _NOT_PRINTABLE_ASCII.sub(_escape, encoded) + "\n"


def _escape(match: re.Match[str]) -> str:
    # Above U+FFFF JSON has surrogate pairs only (RFC 8259, section 7).
    utf16 = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{utf16[i : i + 4]}" for i in range(0, len(utf16), 4))
