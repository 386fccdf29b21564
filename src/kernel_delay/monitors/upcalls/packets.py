"""Whether two events are of one packet, by the bytes that were captured of it.

The tracepoint sees the packet before queue_userspace_packet()
(net/openvswitch/datapath.c, Linux 6.18) readies it for user space: there a VLAN
tag that was beside the packet is pushed into it, and a checksum that was left
to the network card is filled in. So both are left out of the comparison.
"""

import struct

ETH_P_IP = 0x0800
ETH_P_IPV6 = 0x86DD
VLAN_TYPES = (0x8100, 0x88A8)
MAX_VLAN_TAGS = 2
VLAN_TAG_LEN = 4
MAC_ADDRESSES_LEN = 12

# Where a protocol's header holds its checksum, and how long that is.
CHECKSUMS = {6: (16, 2), 17: (6, 2), 58: (2, 2), 132: (8, 4)}


def without_checksum(packet: bytes) -> bytes:
    """`packet` with its TCP, UDP, ICMPv6 or SCTP checksum zeroed, if it has one."""
    place = _checksum_place(packet)
    if place is None:
        return packet
    start, length = place
    end = min(start + length, len(packet))
    return packet[:start] + bytes(end - start) + packet[end:] if start < end else packet


def without_outer_tag(packet: bytes) -> bytes | None:
    """`packet` without its outermost VLAN tag; None when it has none."""
    if len(packet) < MAC_ADDRESSES_LEN + VLAN_TAG_LEN:
        return None
    if int.from_bytes(packet[12:14]) not in VLAN_TYPES:
        return None
    return packet[:MAC_ADDRESSES_LEN] + packet[MAC_ADDRESSES_LEN + VLAN_TAG_LEN :]


def agree(one: bytes, other: bytes) -> bool:
    """Whether the shorter of two captured beginnings is the beginning of the longer."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _checksum_place(packet: bytes) -> tuple[int, int] | None:
    offset = MAC_ADDRESSES_LEN
    for _ in range(MAX_VLAN_TAGS):
        if int.from_bytes(packet[offset : offset + 2]) in VLAN_TYPES:
            offset += VLAN_TAG_LEN
    try:
        (ethertype,) = struct.unpack_from("!H", packet, offset)
        offset += 2
        if ethertype == ETH_P_IP:
            protocol = packet[offset + 9]
            header_len = (packet[offset] & 0xF) * 4
        elif ethertype == ETH_P_IPV6:
            protocol, header_len = packet[offset + 6], 40
        else:
            return None
    except (struct.error, IndexError):
        return None
    if protocol not in CHECKSUMS:
        return None
    within, length = CHECKSUMS[protocol]
    return offset + header_len + within, length
