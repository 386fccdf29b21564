"""The tunnel attribute: a nest of OVS_TUNNEL_KEY_ATTR_*, to ovs-dpctl's text.

Numbers and layouts are those of include/uapi/linux/openvswitch.h (Linux 6.18).
"""

from kernel_delay.openvswitch.flow_key.fields import Field
from kernel_delay.openvswitch.flow_key.netlink import walk
from kernel_delay.openvswitch.flow_key.text import cut_short, flags, hex_number, ip, wrong_length
from kernel_delay.openvswitch.flow_key.tunnel_options import (
    erspan,
    geneve,
    info_bridge_or_gtpu,
    vxlan,
)

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
