"""A tunnel that a flow matches: its parts with their masks, and all of them in one row of bytes.

The text is that of format_odp_tun_attr() (lib/odp-util.c, Open vSwitch 3.5). The row of bytes is
ours: it has a place for each part, so that a filter looks at it as at any other attribute.
"""

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernel_delay.host.netlink import Attribute, walk
from kernel_delay.openvswitch.flow_key.subfields import DEC, HEX, IP, TUN_ID, Layout, Subfield, bits
from kernel_delay.openvswitch.flow_key.text import cut_short, hex_number, spaced_hex, wrong_length
from kernel_delay.openvswitch.flow_key.tunnel import (
    CSUM,
    DONT_FRAGMENT,
    FLAGS,
    GENEVE_HEADER_LEN,
    GENEVE_LENGTH_MASK,
    GTPU_METADATA_LEN,
    OAM,
    PAD,
    VXLAN_EXT_GBP,
    geneve,
    info_bridge_or_gtpu,
    vxlan,
    word,
)
from kernel_delay.openvswitch.flow_key.tunnel import TUN_ID as ID

ERSPAN_LEN = 12

Text = Callable[[int], str]


def _part(name: str, value: int, mask: int, whole: int, text: Text = str) -> str:
    """`name=value/mask`; nothing where all of it is wildcarded."""
    if not mask:
        return ""
    return f"{name}={text(value)}" + ("" if mask == whole else f"/{hex_number(mask)}")


def _joined(*words: str) -> str:
    return ",".join(filter(None, words))


def _whole(text: str, mask: bytes) -> str:
    return f"{text}/{spaced_hex(mask)}"


def _geneve(payload: bytes, mask: bytes) -> str:
    """Options; in a mask the length of an option that counts has all five bits."""
    words = []
    offset = 0
    while offset < len(payload):
        if len(payload) - offset < GENEVE_HEADER_LEN:
            return _whole(geneve(payload), mask)
        option_class, kind, length = struct.unpack_from("!HBB", payload, offset)
        class_mask, kind_mask, length_mask = struct.unpack_from("!HBB", mask, offset)
        data_len = (length & GENEVE_LENGTH_MASK) * 4
        start = offset + GENEVE_HEADER_LEN
        offset = start + data_len
        if offset > len(payload):
            return _whole(geneve(payload), mask)
        parts = _joined(
            _part("class", option_class, class_mask, 0xFFFF, hex_number),
            _part("type", kind, kind_mask, 0xFF, hex_number),
            _part("len", data_len, length_mask & GENEVE_LENGTH_MASK, GENEVE_LENGTH_MASK),
            _data(payload[start:offset], mask[start:offset]),
        )
        words.append("{" + parts + "}")
    return f"geneve({''.join(words)})"


def _data(data: bytes, mask: bytes) -> str:
    if not any(mask):
        return ""
    text = hex_number(int.from_bytes(data))
    if all(byte == 0xFF for byte in mask):
        return text
    return f"{text}/{hex_number(int.from_bytes(mask))}"


def _vxlan(payload: bytes, mask: bytes) -> str:
    found = walk(payload).found
    if [(each.type, len(each.payload)) for each in found] != [(VXLAN_EXT_GBP, 4)]:
        return _whole(vxlan(payload), mask)
    masks = {each.type: each.payload for each in walk(mask).found}
    word, bits = (
        int.from_bytes(data, "little") for data in (found[0].payload, masks.get(VXLAN_EXT_GBP, b""))
    )
    parts = _joined(
        _part("id", word & 0xFFFF, bits & 0xFFFF, 0xFFFF),
        _part("flags", word >> 16 & 0xFF, bits >> 16 & 0xFF, 0xFF, hex_number),
    )
    return f"vxlan(gbp({parts}))"


def _erspan(payload: bytes, mask: bytes) -> str:
    if len(payload) != ERSPAN_LEN:
        return _whole(wrong_length("erspan", payload, str(ERSPAN_LEN)), mask)
    version = payload[0]
    words = [_part("ver", version, mask[0], 0xFF)]
    if version == 1:
        index, bits = (int.from_bytes(data[4:8]) for data in (payload, mask))
        words.append(f"idx={hex_number(index)}/{hex_number(bits)}")
    elif version == 2:
        words.append(_part("dir", payload[11] >> 3 & 1, mask[11] >> 3 & 1, 0xFF))
        words.append(_part("hwid", _hwid(payload), _hwid(mask), 0xFF, hex_number))
    return f"erspan({_joined(*words)})"


def _hwid(data: bytes) -> int:
    return (data[10] & 0x3) << 4 | data[11] >> 4


def _gtpu(payload: bytes, mask: bytes) -> str:
    if len(payload) < GTPU_METADATA_LEN:
        return _whole(info_bridge_or_gtpu(payload), mask)
    flags = _part("flags", payload[0], mask[0], 0xFF, hex_number)
    return f"gtpu({_joined(flags, _part('msgtype', payload[1], mask[1], 0xFF))})"


MASKED_OPTIONS: Mapping[int, Callable[[bytes, bytes], str]] = MappingProxyType(
    {8: _geneve, 11: _vxlan, 15: _erspan, 16: _gtpu}
)
"""By the number of the attribute of the tunnel."""


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
