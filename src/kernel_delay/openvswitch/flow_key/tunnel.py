"""The tunnel attribute: a nest of OVS_TUNNEL_KEY_ATTR_*, to ovs-dpctl's text.

Numbers and layouts are those of include/uapi/linux/openvswitch.h (Linux 6.18).
"""

import struct

from kernel_delay.host.netlink import walk
from kernel_delay.openvswitch.flow_key.fields import Field
from kernel_delay.openvswitch.flow_key.text import (
    cut_short,
    flags,
    hex_number,
    ip,
    spaced_hex,
    wrong_length,
)

GENEVE_HEADER_LEN = 4
GENEVE_LENGTH_MASK = 0x1F
VXLAN_EXT_GBP = 1
GTPU_METADATA_LEN = 2


def geneve(payload: bytes) -> str:
    """Geneve options (RFC 8926, 3.5): class, type and length, then 4-byte words of data."""
    words = []
    offset = 0
    while offset < len(payload):
        left = len(payload) - offset
        if left < GENEVE_HEADER_LEN:
            words.append(f"<{left} bytes left over: {spaced_hex(payload[offset:])}>")
            break
        option_class, kind, length = struct.unpack_from("!HBB", payload, offset)
        data_len = (length & GENEVE_LENGTH_MASK) * 4
        offset += GENEVE_HEADER_LEN
        if data_len > len(payload) - offset:
            words.append(
                f"<option claims {data_len} bytes of {len(payload) - offset}: "
                f"{spaced_hex(payload[offset:])}>"
            )
            break
        text = f"class={hex_number(option_class)},type={hex_number(kind)},len={data_len}"
        if data_len:
            text += f",{hex_number(int.from_bytes(payload[offset : offset + data_len]))}"
        words.append("{" + text + "}")
        offset += data_len
    return f"geneve({''.join(words)})"


def vxlan(payload: bytes) -> str:
    """VXLAN extensions: a nest of OVS_VXLAN_EXT_*, of which GBP holds a group policy.

    GBP's word is struct vxlan_metadata's: policy ID below, flags in bits 16 to
    23 (include/net/vxlan.h, Linux 6.18).
    """
    row = walk(payload)
    words = []
    for attribute in row.found:
        if not attribute.complete:
            words.append(cut_short(f"key{attribute.type}", attribute))
        elif attribute.type != VXLAN_EXT_GBP:
            words.append(f"key{attribute.type}({spaced_hex(attribute.payload)})")
        elif len(attribute.payload) != 4:
            words.append(wrong_length("gbp", attribute.payload, "4"))
        else:
            (word,) = struct.unpack("=I", attribute.payload)
            words.append(f"gbp(id={word & 0xFFFF},flags={hex_number(word >> 16 & 0xFF)})")
    if row.problem:
        words.append(f"<{row.problem}>")
    return f"vxlan({','.join(words)})"


def erspan(payload: bytes) -> str:
    """struct erspan_metadata (include/uapi/linux/erspan.h, Linux 6.18), of 12 bytes.

    Type II carries an index. Type III a direction and a hardware ID of 6 bits,
    in two bytes of bit fields: its upper 2 bits lowest in the first, its lower
    4 highest in the second.
    """
    version, index = struct.unpack_from("=i4s", payload)
    text = f"ver={version & 0xFF}"
    if version == 1:
        text += f",idx={hex_number(int.from_bytes(index))}"
    elif version == 2:
        hardware_id = (payload[10] & 0x3) << 4 | payload[11] >> 4
        text += f",dir={payload[11] >> 3 & 1},hwid={hex_number(hardware_id)}"
    return f"erspan({text})"


def info_bridge_or_gtpu(payload: bytes) -> str:
    """Attribute 16: two things by one number.

    The kernel's IPV4_INFO_BRIDGE has no payload; GTP-U's flags and message
    type, of Open vSwitch's own datapath, have two bytes.
    """
    if not payload:
        return "ipv4_info_bridge"
    if len(payload) < GTPU_METADATA_LEN:
        return wrong_length("gtpu", payload, str(GTPU_METADATA_LEN))
    return f"gtpu(flags={hex_number(payload[0])},msgtype={payload[1]})"


TUN_ID = 0
DONT_FRAGMENT = 5
CSUM = 6
OAM = 7
PAD = 14


def _number(payload: bytes) -> str:
    return str(int.from_bytes(payload))


FIELDS = {
    TUN_ID: Field(8, lambda payload: f"tun_id=0x{int.from_bytes(payload):x}"),
    1: Field(4, lambda payload: f"src={ip(payload)}"),
    2: Field(4, lambda payload: f"dst={ip(payload)}"),
    3: Field(1, lambda payload: f"tos={hex_number(payload[0])}"),
    4: Field(1, lambda payload: f"ttl={payload[0]}"),
    9: Field(2, lambda payload: f"tp_src={_number(payload)}"),
    10: Field(2, lambda payload: f"tp_dst={_number(payload)}"),
    12: Field(16, lambda payload: f"ipv6_src={ip(payload)}"),
    13: Field(16, lambda payload: f"ipv6_dst={ip(payload)}"),
    15: Field(12, erspan),
}
OPTIONS = {8: geneve, 11: vxlan, 16: info_bridge_or_gtpu}

# Attributes that are a flag by being there. A tunnel ID also says that the
# tunnel has a key, which Open vSwitch prints as a flag.
FLAGS = {OAM: "oam", DONT_FRAGMENT: "df", CSUM: "csum", TUN_ID: "key"}


def tunnel(payload: bytes) -> str:
    """The text inside `tunnel(…)`."""
    row = walk(payload)
    words: list[str] = []
    seen: set[int] = set()
    for attribute in row.found:
        if not attribute.complete:
            words.append(cut_short(f"key{attribute.type}", attribute))
            continue
        if attribute.type in FLAGS:
            seen.add(attribute.type)
        if attribute.type not in (OAM, DONT_FRAGMENT, CSUM, PAD):
            words.append(word(attribute.type, attribute.payload))
    if row.problem:
        words.append(f"<{row.problem}>")
    bits = sum(1 << bit for bit, kind in enumerate(FLAGS) if kind in seen)
    words.append(f"flags({flags(bits, tuple(FLAGS.values()))})")
    return ",".join(words)


def word(kind: int, payload: bytes) -> str:
    """One attribute that is no flag."""
    if kind in OPTIONS:
        return OPTIONS[kind](payload)
    field = FIELDS.get(kind)
    if field is None:
        return f"key{kind}({payload.hex(' ')})"
    if len(payload) != field.length:
        return wrong_length(f"key{kind}", payload, str(field.length))
    return field.text(payload)
