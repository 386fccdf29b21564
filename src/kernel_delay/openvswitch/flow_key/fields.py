"""Attributes whose payload has one fixed size: payload to text.

Layouts are the structs of include/uapi/linux/openvswitch.h (Linux 6.18);
multi-byte header fields are in network order, what the kernel itself counts
(ports, marks, hashes) in host order. The text is what odp_flow_key_format()
of Open vSwitch 3.1 prints, but for ct_state, which is spelt as in
`ovs-dpctl dump-flows`, by the names of its bits.
"""

import struct
from collections.abc import Callable

from msgspec import Struct

from kernel_delay.openvswitch.flow_key.text import flags, hex_number, ip, mac, spaced_hex

FRAGMENT = ("no", "first", "later")
CT_STATE = ("new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat")
# Bits 9 to 11 are reserved in the TCP header (RFC 9293) and have no name.
TCP_FLAGS = (
    "fin",
    "syn",
    "rst",
    "psh",
    "ack",
    "urg",
    "ece",
    "cwr",
    "ns",
    "[200]",
    "[400]",
    "[800]",
)
VLAN_VID_MASK = 0x0FFF
VLAN_CFI = 0x1000


class Field(Struct, frozen=True):
    """How to write a payload of exactly `length` bytes."""

    length: int
    text: Callable[[bytes], str]


def _u32_hex(payload: bytes) -> str:
    return hex_number(struct.unpack("=I", payload)[0])


def _u32(payload: bytes) -> str:
    return str(struct.unpack("=I", payload)[0])


def _u16_hex(payload: bytes) -> str:
    return hex_number(struct.unpack("=H", payload)[0])


def _ct_state(payload: bytes) -> str:
    return flags(struct.unpack("=I", payload)[0], CT_STATE)


def _ct_labels(payload: bytes) -> str:
    # Of 128 bits in host order, and all architectures we run on are little-endian.
    return hex_number(int.from_bytes(payload, "little"))


def _ct_tuple4(payload: bytes) -> str:
    source, destination, tp_src, tp_dst, proto = struct.unpack_from("!4s4sHHB", payload)
    return f"src={ip(source)},dst={ip(destination)},proto={proto},tp_src={tp_src},tp_dst={tp_dst}"


def _ct_tuple6(payload: bytes) -> str:
    source, destination, tp_src, tp_dst, proto = struct.unpack_from("!16s16sHHB", payload)
    return (
        f"src={ip(source)},dst={ip(destination)},proto={proto},src_port={tp_src},dst_port={tp_dst}"
    )


def _ethernet(payload: bytes) -> str:
    return f"src={mac(payload[:6])},dst={mac(payload[6:])}"


def _vlan(payload: bytes) -> str:
    (tci,) = struct.unpack("!H", payload)
    text = f"vid={tci & VLAN_VID_MASK},pcp={tci >> 13}"
    return text if tci & VLAN_CFI else text + ",cfi=0"


def _ethertype(payload: bytes) -> str:
    return f"0x{payload.hex()}"


def _packet_type(payload: bytes) -> str:
    namespace, kind = struct.unpack("!HH", payload)
    return f"ns={namespace},id={hex_number(kind)}"


def _fragment(value: int) -> str:
    return FRAGMENT[value] if value < len(FRAGMENT) else "<error>"


def _ipv4(payload: bytes) -> str:
    source, destination, proto, tos, ttl, fragment = struct.unpack("!4s4sBBBB", payload)
    return (
        f"src={ip(source)},dst={ip(destination)},proto={proto},tos={hex_number(tos)},ttl={ttl},"
        f"frag={_fragment(fragment)}"
    )


def _ipv6(payload: bytes) -> str:
    source, destination, label, proto, tclass, hlimit, fragment = struct.unpack(
        "!16s16sIBBBB", payload
    )
    return (
        f"src={ip(source)},dst={ip(destination)},label={hex_number(label)},proto={proto},"
        f"tclass={hex_number(tclass)},hlimit={hlimit},frag={_fragment(fragment)}"
    )


def _ports(payload: bytes) -> str:
    source, destination = struct.unpack("!HH", payload)
    return f"src={source},dst={destination}"


def _tcp_flags(payload: bytes) -> str:
    return flags(struct.unpack("!H", payload)[0], TCP_FLAGS)


def _icmp(payload: bytes) -> str:
    return f"type={payload[0]},code={payload[1]}"


def _arp(payload: bytes) -> str:
    sip, tip, op, sha, tha = struct.unpack_from("!4s4sH6s6s", payload)
    return f"sip={ip(sip)},tip={ip(tip)},op={op},sha={mac(sha)},tha={mac(tha)}"


def _nd(payload: bytes) -> str:
    target, sll, tll = struct.unpack("!16s6s6s", payload)
    return f"target={ip(target)},sll={mac(sll)},tll={mac(tll)}"


def _nd_extensions(payload: bytes) -> str:
    reserved, options_type = struct.unpack_from("!IB", payload)
    return f"nd_reserved=0x{reserved:x},nd_options_type={options_type}"


FIELDS = {
    "OVS_KEY_ATTR_PRIORITY": Field(4, _u32_hex),
    "OVS_KEY_ATTR_IN_PORT": Field(4, _u32),
    "OVS_KEY_ATTR_ETHERNET": Field(12, _ethernet),
    "OVS_KEY_ATTR_VLAN": Field(2, _vlan),
    "OVS_KEY_ATTR_ETHERTYPE": Field(2, _ethertype),
    "OVS_KEY_ATTR_IPV4": Field(12, _ipv4),
    "OVS_KEY_ATTR_IPV6": Field(40, _ipv6),
    "OVS_KEY_ATTR_TCP": Field(4, _ports),
    "OVS_KEY_ATTR_UDP": Field(4, _ports),
    "OVS_KEY_ATTR_SCTP": Field(4, _ports),
    "OVS_KEY_ATTR_ICMP": Field(2, _icmp),
    "OVS_KEY_ATTR_ICMPV6": Field(2, _icmp),
    "OVS_KEY_ATTR_ARP": Field(24, _arp),
    "OVS_KEY_ATTR_ND": Field(28, _nd),
    "OVS_KEY_ATTR_SKB_MARK": Field(4, _u32_hex),
    "OVS_KEY_ATTR_TCP_FLAGS": Field(2, _tcp_flags),
    "OVS_KEY_ATTR_DP_HASH": Field(4, _u32_hex),
    "OVS_KEY_ATTR_RECIRC_ID": Field(4, _u32_hex),
    "OVS_KEY_ATTR_CT_STATE": Field(4, _ct_state),
    "OVS_KEY_ATTR_CT_ZONE": Field(2, _u16_hex),
    "OVS_KEY_ATTR_CT_MARK": Field(4, _u32_hex),
    "OVS_KEY_ATTR_CT_LABELS": Field(16, _ct_labels),
    "OVS_KEY_ATTR_CT_ORIG_TUPLE_IPV4": Field(16, _ct_tuple4),
    "OVS_KEY_ATTR_CT_ORIG_TUPLE_IPV6": Field(40, _ct_tuple6),
    "OVS_KEY_ATTR_PACKET_TYPE": Field(4, _packet_type),
    "OVS_KEY_ATTR_ND_EXTENSIONS": Field(8, _nd_extensions),
    "OVS_KEY_ATTR_IPV6_EXTHDRS": Field(2, spaced_hex),
}
