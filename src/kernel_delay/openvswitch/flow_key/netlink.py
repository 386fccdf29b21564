"""Netlink attributes in a row of bytes that can't be trusted.

The layout is struct nlattr's (include/uapi/linux/netlink.h): a 16-bit length
that counts its own 4-byte header, a 16-bit type whose two top bits are flags,
the payload, and padding to a multiple of 4.
"""

import struct

from msgspec import Struct

NLA_HDRLEN = 4
NLA_TYPE_MASK = 0x3FFF


class Attribute(Struct, frozen=True):
    """One attribute: `length` as its header claims it, the header included.

    `payload` is what is there of the claimed payload; `complete` when that is all.
    """

    length: int
    type: int
    payload: bytes

    @property
    def claimed(self) -> int:
        """Bytes of payload the header claims."""
        return self.length - NLA_HDRLEN

    @property
    def complete(self) -> bool:
        """Whether the whole payload is there."""
        return len(self.payload) == self.claimed


class Attributes(Struct, frozen=True):
    """A walk over attributes: those found, and why it ended early.

    Only the last one can be incomplete. `problem` is None when the bytes are
    attributes from end to end; `rest` holds the bytes behind the last header
    that could be read.
    """

    found: tuple[Attribute, ...]
    rest: bytes
    problem: str | None


def walk(data: bytes, size: int | None = None) -> Attributes:
    """Split `data` into attributes.

    `size` is the row's full length in bytes, of which `data` is the captured
    beginning; None means that `data` is all of it.
    """
    size = len(data) if size is None else max(size, len(data))
    found: list[Attribute] = []
    offset = 0
    while offset < size:
        header = data[offset : offset + NLA_HDRLEN]
        if len(header) < NLA_HDRLEN:
            return Attributes(tuple(found), header, _no_header(len(data), size, len(header)))
        length, kind = struct.unpack("=HH", header)
        if length < NLA_HDRLEN:
            problem = f"nla_len {length} is less than its own header"
            return Attributes(tuple(found), data[offset:], problem)
        attribute = Attribute(
            length, kind & NLA_TYPE_MASK, data[offset + NLA_HDRLEN : offset + length]
        )
        found.append(attribute)
        if length > size - offset:
            problem = f"nla_len {length} goes past the end, {size - offset} bytes are left"
            return Attributes(tuple(found), b"", problem)
        if not attribute.complete:
            return Attributes(tuple(found), b"", _cut(len(data), size))
        # The last attribute may come without its padding.
        offset += (length + 3) & ~3
    return Attributes(tuple(found), b"", None)


def _no_header(captured: int, size: int, left: int) -> str:
    if captured < size:
        return _cut(captured, size)
    return f"{left} bytes left over, too few for a header"


def _cut(captured: int, size: int) -> str:
    return f"{captured} of {size} bytes captured"
