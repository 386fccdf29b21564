"""The attributes of what encapsulates packets: NSH, and MPLS."""

import struct
from types import MappingProxyType

from kernel_delay.host.netlink import walk
from kernel_delay.openvswitch.flow_key.text import cut_short, spaced_hex, wrong_length

BASE = 1
MD1 = 2
MD_TYPE_1 = 1
BASE_LEN = 8
MD1_LEN = 16


def nsh(payload: bytes) -> str:
    """The text inside `nsh(…)`; context words only where the base says metadata type 1."""
    row = walk(payload)
    words = []
    has_context = False
    for attribute in row.found:
        if not attribute.complete:
            words.append(cut_short(f"key{attribute.type}", attribute))
        elif attribute.type == BASE:
            words.append(_base(attribute.payload))
            has_context = len(attribute.payload) == BASE_LEN and attribute.payload[2] == MD_TYPE_1
        elif attribute.type == MD1:
            if len(attribute.payload) != MD1_LEN:
                words.append(wrong_length("md1", attribute.payload, str(MD1_LEN)))
            elif has_context:
                words.extend(
                    f"c{number}=0x{word:x}"
                    for number, word in enumerate(struct.unpack("!4I", attribute.payload), start=1)
                )
        else:
            words.append(f"key{attribute.type}({spaced_hex(attribute.payload)})")
    if row.problem:
        words.append(f"<{row.problem}>")
    return ",".join(words)


def nsh_masked(payload: bytes) -> str:
    """The same of a set action, in which each attribute is a value and its mask of one length."""
    row = walk(payload)
    words = []
    for attribute in row.found:
        parts = _PARTS.get(attribute.type)
        length = {BASE: BASE_LEN, MD1: MD1_LEN}.get(attribute.type, 0)
        if not attribute.complete:
            words.append(cut_short(f"key{attribute.type}", attribute))
        elif parts is None or len(attribute.payload) != 2 * length:
            words.append(f"key{attribute.type}({spaced_hex(attribute.payload)})")
        else:
            value, mask = halves(attribute.payload)
            words += [text for part in parts if (text := _masked(*part, value, mask))]
    if row.problem:
        words.append(f"<{row.problem}>")
    return ",".join(words)


def halves(payload: bytes) -> tuple[bytes, bytes]:
    """A value and its mask, one behind the other."""
    half = len(payload) // 2
    return payload[:half], payload[half:]


# Name, offset, length.
_PARTS = MappingProxyType(
    {
        BASE: (
            *(("flags", 0, 1), ("ttl", 1, 1), ("mdtype", 2, 1), ("np", 3, 1)),
            *(("spi", 4, 3), ("si", 7, 1)),
        ),
        MD1: (("c1", 0, 4), ("c2", 4, 4), ("c3", 8, 4), ("c4", 12, 4)),
    }
)


def _masked(name: str, offset: int, length: int, value: bytes, mask: bytes) -> str:
    number, bits = (int.from_bytes(data[offset : offset + length]) for data in (value, mask))
    if not bits:
        return ""
    is_whole = bits == (1 << 8 * length) - 1
    if length > 1:
        return f"{name}={number:#x}" + ("" if is_whole else f"/{bits:#010x}")
    return f"{name}={number}" if is_whole else f"{name}={number:#04x}/{bits:#04x}"


def _base(payload: bytes) -> str:
    if len(payload) != BASE_LEN:
        return wrong_length("base", payload, str(BASE_LEN))
    flags, ttl, md_type, next_protocol, path = struct.unpack("!BBBBI", payload)
    return (
        f"flags={flags},ttl={ttl},mdtype={md_type},np={next_protocol},"
        f"spi=0x{path >> 8:x},si={path & 0xFF}"
    )


LSE_LEN = 4


def mpls(payload: bytes) -> str:
    """`mpls(…)` with each label stack entry (RFC 3032, 2.1): label, TC, bottom of stack, TTL."""
    if not payload or len(payload) % LSE_LEN:
        return wrong_length("mpls", payload, "a multiple of 4")
    return (
        "mpls("
        + ",".join(
            f"label={lse >> 12},tc={lse >> 9 & 7},ttl={lse & 0xFF},bos={lse >> 8 & 1}"
            for (lse,) in struct.iter_unpack("!I", payload)
        )
        + ")"
    )


def mpls_match(payload: bytes, mask: bytes) -> str:
    """The same with masks, of the same length, as format_mpls() of lib/odp-util.c writes them."""
    if not payload or len(payload) % LSE_LEN:
        return f"{mpls(payload)}/{spaced_hex(mask)}"
    pairs = zip(label_entries(payload), label_entries(mask), strict=True)
    return f"mpls({','.join(_masked_entry(*map(int.from_bytes, pair)) for pair in pairs)})"


def label_entries(payload: bytes) -> list[bytes]:
    """The label stack's entries, the outermost first; the last may be cut."""
    return [payload[at : at + LSE_LEN] for at in range(0, len(payload), LSE_LEN)]


def _masked_entry(lse: int, mask: int) -> str:
    return (
        f"label={lse >> 12}/0x{mask >> 12:x},tc={lse >> 9 & 7}/{mask >> 9 & 7:x},"
        f"ttl={lse & 0xFF}/0x{mask & 0xFF:x},bos={lse >> 8 & 1}/{mask >> 8 & 1:x}"
    )
