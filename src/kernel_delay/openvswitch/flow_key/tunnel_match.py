"""A tunnel that a flow matches: its parts with their masks, and all of them in one row of bytes.

The text is that of format_odp_tun_attr() (lib/odp-util.c, Open vSwitch 3.5). The row of bytes is
ours: it has a place for each part, so that a filter looks at it as at any other attribute.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kernel_delay.openvswitch.flow_key.netlink import Attribute, walk
from kernel_delay.openvswitch.flow_key.subfields import DEC, HEX, IP, TUN_ID, Layout, Subfield, bits
from kernel_delay.openvswitch.flow_key.text import cut_short, spaced_hex
from kernel_delay.openvswitch.flow_key.tunnel import CSUM, DONT_FRAGMENT, FLAGS, OAM, PAD, word
from kernel_delay.openvswitch.flow_key.tunnel import TUN_ID as ID
from kernel_delay.openvswitch.flow_key.tunnel_option_masks import MASKED_OPTIONS

_FLAG_KIND = bits("big", tuple(FLAGS.values()))
_BIT_OF_FLAG = {kind: 1 << bit for bit, kind in enumerate(FLAGS)}
_FLAG_ATTRIBUTES = (OAM, DONT_FRAGMENT, CSUM)

# By the number of the attribute, in the order in which Open vSwitch writes them.
_PARTS: Mapping[int, Subfield] = MappingProxyType(
    {
        ID: Subfield("tun_id", 0, 8, TUN_ID),
        1: Subfield("src", 8, 4, IP),
        2: Subfield("dst", 12, 4, IP),
        12: Subfield("ipv6_src", 16, 16, IP),
        13: Subfield("ipv6_dst", 32, 16, IP),
        3: Subfield("tos", 48, 1, HEX),
        4: Subfield("ttl", 49, 1, DEC),
        9: Subfield("tp_src", 50, 2, DEC),
        10: Subfield("tp_dst", 52, 2, DEC),
    }
)
_FLAGS_PART = Subfield("flags", 54, 1, _FLAG_KIND, bits=(1 << len(FLAGS)) - 1)
_IPV4, _IPV6 = (1, 2), (12, 13)

LAYOUT = Layout(55, (*_PARTS.values(), _FLAGS_PART))


def row_of(payload: bytes, mask: bytes | None) -> tuple[bytes, bytes | None]:
    """The tunnel and its mask as bytes of LAYOUT; without a mask all of it is exact.

    A flow is of one version of IP, so the addresses of the other are none, for sure.
    """
    found = _by_kind(payload)
    row = _row(found)
    if mask is None:
        return row, None
    masks = {kind: data for kind, data in _by_kind(mask).items() if _is_matched(kind, found)}
    if ID in found:
        # That there is one counts whatever it is.
        masks.setdefault(ID, b"")
    for own, other in ((_IPV4, _IPV6), (_IPV6, _IPV4)):
        if any(kind in found for kind in own):
            masks |= {kind: b"\xff" * _PARTS[kind].length for kind in other if kind not in found}
    return row, _row(masks)


def _is_matched(kind: int, found: Mapping[int, bytes]) -> bool:
    return kind in found or kind in _FLAG_ATTRIBUTES


def _row(found: Mapping[int, bytes]) -> bytes:
    row = bytearray(LAYOUT.length)
    for kind, part in _PARTS.items():
        data = found.get(kind, b"")
        if len(data) == part.length:
            row[part.offset : part.offset + part.length] = data
    row[_FLAGS_PART.offset] = sum(bit for kind, bit in _BIT_OF_FLAG.items() if kind in found)
    return bytes(row)


def _by_kind(payload: bytes) -> dict[int, bytes]:
    return {each.type: each.payload for each in walk(payload).found if each.complete}


def tunnel_match(payload: bytes, mask: bytes) -> str:
    """The text inside `tunnel(…)`; empty where the flow wildcards all of it."""
    row = walk(payload)
    masks = _by_kind(mask)
    values, looked_at = row_of(payload, mask)
    assert looked_at is not None
    words = [_word(each, masks.get(each.type), values, looked_at) for each in row.found]
    if row.problem:
        words.append(f"<{row.problem}>")
    if flags := _flags(values, looked_at):
        words.append(flags)
    return ",".join(filter(None, words))


def _word(attribute: Attribute, mask: bytes | None, values: bytes, looked_at: bytes) -> str:
    kind, payload = attribute.type, attribute.payload
    if not attribute.complete:
        return cut_short(f"key{kind}", attribute)
    if kind in (*_FLAG_ATTRIBUTES, PAD):
        return ""
    masked = MASKED_OPTIONS.get(kind)
    if masked is not None and payload:
        return masked(payload, mask if mask and len(mask) == len(payload) else bytes(len(payload)))
    if mask is None or not any(mask):
        return ""
    part = _PARTS.get(kind)
    if part is not None and len(payload) == len(mask) == part.length:
        return part.match_text(values, looked_at)
    text = word(kind, payload)
    return text if all(byte == 0xFF for byte in mask) else f"{text}/{spaced_hex(mask)}"


def _flags(values: bytes, looked_at: bytes) -> str:
    value, mask = _FLAGS_PART.of(values), _FLAGS_PART.of(looked_at)
    if not any(mask):
        return ""
    assert _FLAG_KIND.masked_text is not None
    exact = mask == _FLAGS_PART.whole
    return f"flags({_FLAG_KIND.text(value) if exact else _FLAG_KIND.masked_text(value, mask)})"
