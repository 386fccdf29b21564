"""A Sample, or what else is reported, as one line of JSON.

docs/sample.schema.json describes a Sample's.
"""

import re

import msgspec

_NOT_PRINTABLE_ASCII = re.compile(r"[^\x20-\x7e]")


def render(document: msgspec.Struct) -> str:
    """One JSON object and a newline.

    It is ASCII alone: all else stands as `\\uXXXX`, so that a name can't reach
    a terminal as a control character, and no locale matters.
    """
    # Events are made only when looked at: that is here.
    encoded = msgspec.json.encode(document, enc_hook=tuple).decode()
    return _NOT_PRINTABLE_ASCII.sub(_escape, encoded) + "\n"


def _escape(match: re.Match[str]) -> str:
    # Above U+FFFF JSON has surrogate pairs only (RFC 8259, section 7).
    utf16 = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{utf16[i : i + 4]}" for i in range(0, len(utf16), 4))
