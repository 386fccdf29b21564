"""How ovs-dpctl(8) writes single values, and what it calls attributes.

NAMES are the kernel's, by number (enum ovs_key_attr of
include/uapi/linux/openvswitch.h, Linux 6.18); TERMS are those of ovs-dpctl(8).
"""

import socket
from collections.abc import Sequence

from kernel_delay.host.netlink import Attribute


def hex_number(value: int) -> str:
    """`value` as C's `%#x` writes it: no prefix for zero."""
    return f"{value:#x}" if value else "0"


def mac(octets: bytes) -> str:
    """An Ethernet address of 6 octets."""
    return octets.hex(":")


def ip(octets: bytes) -> str:
    """An IPv4 (4 octets) or IPv6 (16 octets) address, as inet_ntop(3) writes it."""
    return socket.inet_ntop(socket.AF_INET if len(octets) == 4 else socket.AF_INET6, octets)


def flags(value: int, names: Sequence[str]) -> str:
    """Bits of `value` by `names`, bit 0 first, as `a|b`; nameless ones as one hex number."""
    words = [name for bit, name in enumerate(names) if value & 1 << bit]
    unnamed = value >> len(names) << len(names)
    if unnamed:
        words.append(hex_number(unnamed))
    return "|".join(words) or "0"


def spaced_hex(data: bytes) -> str:
    """Bytes in hexadecimal, a space between two."""
    return data.hex(" ")


def cut_short(term: str, attribute: Attribute) -> str:
    """An attribute of which only a part is there."""
    return (
        f"{term}(<{len(attribute.payload)} of {attribute.claimed} bytes: "
        f"{spaced_hex(attribute.payload)}>)"
    )


def wrong_length(term: str, payload: bytes, expected: str) -> str:
    """An attribute whose payload is not of the length its kind has."""
    return f"{term}(<length {len(payload)}, not {expected}: {spaced_hex(payload)}>)"


def ufid_text(first: int, second: int, third: int, fourth: int) -> str:
    """A UFID as Open vSwitch writes it, the four words of 32 bits as a UUID."""
    return (
        f"{first:08x}-{second >> 16:04x}-{second & 0xFFFF:04x}"
        f"-{third >> 16:04x}-{third & 0xFFFF:04x}{fourth:08x}"
    )


NAMES = (
    "OVS_KEY_ATTR_UNSPEC",
    "OVS_KEY_ATTR_ENCAP",
    "OVS_KEY_ATTR_PRIORITY",
    "OVS_KEY_ATTR_IN_PORT",
    "OVS_KEY_ATTR_ETHERNET",
    "OVS_KEY_ATTR_VLAN",
    "OVS_KEY_ATTR_ETHERTYPE",
    "OVS_KEY_ATTR_IPV4",
    "OVS_KEY_ATTR_IPV6",
    "OVS_KEY_ATTR_TCP",
    "OVS_KEY_ATTR_UDP",
    "OVS_KEY_ATTR_ICMP",
    "OVS_KEY_ATTR_ICMPV6",
    "OVS_KEY_ATTR_ARP",
    "OVS_KEY_ATTR_ND",
    "OVS_KEY_ATTR_SKB_MARK",
    "OVS_KEY_ATTR_TUNNEL",
    "OVS_KEY_ATTR_SCTP",
    "OVS_KEY_ATTR_TCP_FLAGS",
    "OVS_KEY_ATTR_DP_HASH",
    "OVS_KEY_ATTR_RECIRC_ID",
    "OVS_KEY_ATTR_MPLS",
    "OVS_KEY_ATTR_CT_STATE",
    "OVS_KEY_ATTR_CT_ZONE",
    "OVS_KEY_ATTR_CT_MARK",
    "OVS_KEY_ATTR_CT_LABELS",
    "OVS_KEY_ATTR_CT_ORIG_TUPLE_IPV4",
    "OVS_KEY_ATTR_CT_ORIG_TUPLE_IPV6",
    "OVS_KEY_ATTR_NSH",
    "OVS_KEY_ATTR_PACKET_TYPE",
    "OVS_KEY_ATTR_ND_EXTENSIONS",
    "OVS_KEY_ATTR_TUNNEL_INFO",
    "OVS_KEY_ATTR_IPV6_EXTHDRS",
)

IN_PORT = NAMES.index("OVS_KEY_ATTR_IN_PORT")
RECIRC_ID = NAMES.index("OVS_KEY_ATTR_RECIRC_ID")

TERMS = {
    "OVS_KEY_ATTR_ENCAP": "encap",
    "OVS_KEY_ATTR_PRIORITY": "skb_priority",
    "OVS_KEY_ATTR_IN_PORT": "in_port",
    "OVS_KEY_ATTR_ETHERNET": "eth",
    "OVS_KEY_ATTR_VLAN": "vlan",
    "OVS_KEY_ATTR_ETHERTYPE": "eth_type",
    "OVS_KEY_ATTR_IPV4": "ipv4",
    "OVS_KEY_ATTR_IPV6": "ipv6",
    "OVS_KEY_ATTR_TCP": "tcp",
    "OVS_KEY_ATTR_UDP": "udp",
    "OVS_KEY_ATTR_ICMP": "icmp",
    "OVS_KEY_ATTR_ICMPV6": "icmpv6",
    "OVS_KEY_ATTR_ARP": "arp",
    "OVS_KEY_ATTR_ND": "nd",
    "OVS_KEY_ATTR_SKB_MARK": "skb_mark",
    "OVS_KEY_ATTR_TUNNEL": "tunnel",
    "OVS_KEY_ATTR_SCTP": "sctp",
    "OVS_KEY_ATTR_TCP_FLAGS": "tcp_flags",
    "OVS_KEY_ATTR_DP_HASH": "dp_hash",
    "OVS_KEY_ATTR_RECIRC_ID": "recirc_id",
    "OVS_KEY_ATTR_MPLS": "mpls",
    "OVS_KEY_ATTR_CT_STATE": "ct_state",
    "OVS_KEY_ATTR_CT_ZONE": "ct_zone",
    "OVS_KEY_ATTR_CT_MARK": "ct_mark",
    "OVS_KEY_ATTR_CT_LABELS": "ct_label",
    "OVS_KEY_ATTR_CT_ORIG_TUPLE_IPV4": "ct_tuple4",
    "OVS_KEY_ATTR_CT_ORIG_TUPLE_IPV6": "ct_tuple6",
    "OVS_KEY_ATTR_NSH": "nsh",
    "OVS_KEY_ATTR_PACKET_TYPE": "packet_type",
    "OVS_KEY_ATTR_ND_EXTENSIONS": "nd_ext",
}


def attribute_name(kind: int) -> str:
    """The kernel's name of attribute number `kind`."""
    return NAMES[kind] if kind < len(NAMES) else "<unknown>"


def attribute_term(kind: int) -> str:
    """What ovs-dpctl calls attribute number `kind`: `keyN` where it has no word."""
    return TERMS.get(attribute_name(kind), f"key{kind}")
