"""A packet's headers as a flow key, as the kernel extracts it (net/openvswitch/flow.c, 6.18).

From Ethernet to the transport's ports, without MPLS and NSH; headers that are cut short end it.
"""

import struct

from kernel_delay.host.netlink import NLA_HDRLEN
from kernel_delay.openvswitch.flow_key.fields import VLAN_CFI
from kernel_delay.openvswitch.flow_key.text import NAMES

ETHER, TAG = 12, 2
NLA_ALIGNTO = 4
ETH_P_IP, ETH_P_ARP, ETH_P_IPV6 = 0x0800, 0x0806, 0x86DD
VLANS = (0x8100, 0x88A8)

TCP, UDP, ICMP, ICMPV6, SCTP = 6, 17, 1, 58, 132
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60
OPTIONS = (HOP_BY_HOP, ROUTING, AUTHENTICATION, DESTINATION)

FRAG_NONE, FRAG_FIRST, FRAG_LATER = 0, 1, 2
IP_OFFSET, IP_MORE = 0x1FFF, 0x2000


def packet_key(packet: bytes, ethertype: bytes | None = None) -> bytes:
    """The attributes of a packet's headers, in a key's order.

    It is one of Ethernet, or else of this type, without its attribute.
    """
    if ethertype is not None:
        return _after_ethernet(ethertype + packet, 0)[NLA_ALIGNTO + NLA_HDRLEN :]
    if len(packet) < ETHER + TAG:
        return b""
    destination, source = packet[:6], packet[6:ETHER]
    return _attribute("ETHERNET", source + destination) + _after_ethernet(packet[ETHER:], 0)


def _after_ethernet(data: bytes, tags: int) -> bytes:
    """From an ethertype on: VLAN tags, of which the kernel looks at two, and what is in them."""
    kind, rest = int.from_bytes(data[:TAG]), data[TAG:]
    ethertype = _attribute("ETHERTYPE", data[:TAG])
    if kind in VLANS and tags < 2 and len(rest) >= 2 * TAG:
        tci = int.from_bytes(rest[:TAG]) | VLAN_CFI
        inner = _after_ethernet(rest[TAG:], tags + 1)
        return ethertype + _attribute("VLAN", tci.to_bytes(2)) + _attribute("ENCAP", inner)
    if kind == ETH_P_IP:
        return ethertype + _ipv4(rest)
    if kind == ETH_P_IPV6:
        return ethertype + _ipv6(rest)
    if kind == ETH_P_ARP:
        return ethertype + _arp(rest)
    return ethertype


def _ipv4(data: bytes) -> bytes:
    header = 4 * (data[0] & 0xF) if data else 0
    if not 20 <= header <= len(data):
        return b""
    tos, fragment, ttl, protocol = struct.unpack_from("!xB4xHBB", data)
    part = FRAG_NONE
    if fragment & IP_OFFSET:
        part = FRAG_LATER
    elif fragment & IP_MORE:
        part = FRAG_FIRST
    key = _attribute("IPV4", data[12:20] + bytes([protocol, tos, ttl, part]))
    return key if part == FRAG_LATER else key + _transport(protocol, data[header:])


def _ipv6(data: bytes) -> bytes:
    if len(data) < 40:
        return b""
    word, _, protocol, hops = struct.unpack_from("!IHBB", data)
    part, rest = FRAG_NONE, data[40:]
    while protocol in (*OPTIONS, FRAGMENT) and len(rest) >= 8 and part != FRAG_LATER:
        if protocol == FRAGMENT:
            part = FRAG_LATER if int.from_bytes(rest[2:4]) & 0xFFF8 else FRAG_FIRST
            length = 8
        else:
            length = 4 * (rest[1] + 2) if protocol == AUTHENTICATION else 8 * (rest[1] + 1)
        protocol, rest = rest[0], rest[length:]
    label = (word & 0xFFFFF).to_bytes(4)
    fields = bytes([protocol, word >> 20 & 0xFF, hops, part])
    key = _attribute("IPV6", data[8:40] + label + fields)
    return key if part == FRAG_LATER else key + _transport(protocol, rest)


def _transport(protocol: int, data: bytes) -> bytes:
    if protocol == TCP and len(data) >= 20:
        flags = (int.from_bytes(data[12:14]) & 0xFFF).to_bytes(2)
        return _attribute("TCP", data[:4]) + _attribute("TCP_FLAGS", flags)
    if protocol in _PORTS and len(data) >= 8:
        return _attribute(_PORTS[protocol], data[:4])
    if protocol in _ICMP and len(data) >= 8:
        return _attribute(_ICMP[protocol], data[:2])
    return b""


_PORTS = {UDP: "UDP", SCTP: "SCTP"}
_ICMP = {ICMP: "ICMP", ICMPV6: "ICMPV6"}


def _arp(data: bytes) -> bytes:
    if len(data) < 28:
        return b""
    operation, source, sender, target, wanted = struct.unpack_from("!6x2s6s4s6s4s", data)
    return _attribute("ARP", sender + wanted + operation + source + target + bytes(2))


def _attribute(name: str, payload: bytes) -> bytes:
    kind = NAMES.index(f"OVS_KEY_ATTR_{name}")
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)
