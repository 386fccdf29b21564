"""What single tunnel protocols add to a tunnel, with masks: lib/odp-util.c of Open vSwitch 3.5.

Value and mask are of the same length. What can't be distinguished is followed by the mask's bytes.
"""

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kernel_delay.openvswitch.flow_key.netlink import walk
from kernel_delay.openvswitch.flow_key.text import hex_number, spaced_hex, wrong_length
from kernel_delay.openvswitch.flow_key.tunnel_options import (
    GENEVE_HEADER_LEN,
    GENEVE_LENGTH_MASK,
    GTPU_METADATA_LEN,
    VXLAN_EXT_GBP,
    geneve,
    info_bridge_or_gtpu,
    vxlan,
)

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
