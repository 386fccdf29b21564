"""Well-formed flow keys for hypothesis: any values, the lengths the kernel uses."""

import struct

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kernel_delay.openvswitch.flow_key.text import NAMES
from tests.integration.datapath_double import attribute


def number(name: str) -> int:
    return NAMES.index("OVS_KEY_ATTR_" + name)


def octets(length: int) -> SearchStrategy[bytes]:
    """Payload bytes, zeros and ones more often than chance gives."""
    edge = st.sampled_from([bytes(length), b"\xff" * length, bytes(length - 1) + b"\x01"])
    return edge | st.binary(min_size=length, max_size=length)


def field(name: str, length: int) -> SearchStrategy[bytes]:
    return octets(length).map(lambda payload: attribute(number(name), payload))


def nest(kind: int, parts: SearchStrategy[list[bytes]]) -> SearchStrategy[bytes]:
    return parts.map(lambda found: attribute(kind, b"".join(found)))


FIXED = {
    "PRIORITY": 4,
    "IN_PORT": 4,
    "ETHERNET": 12,
    "VLAN": 2,
    "ETHERTYPE": 2,
    "IPV4": 12,
    "IPV6": 40,
    "TCP": 4,
    "UDP": 4,
    "SCTP": 4,
    "ICMP": 2,
    "ICMPV6": 2,
    "ARP": 24,
    "ND": 28,
    "SKB_MARK": 4,
    "TCP_FLAGS": 2,
    "DP_HASH": 4,
    "RECIRC_ID": 4,
    "CT_ZONE": 2,
    "CT_MARK": 4,
    "CT_LABELS": 16,
    "CT_ORIG_TUPLE_IPV4": 16,
    "CT_ORIG_TUPLE_IPV6": 40,
    "PACKET_TYPE": 4,
    "ND_EXTENSIONS": 8,
    "IPV6_EXTHDRS": 2,
}

ipv6_embedding_ipv4 = st.tuples(
    st.sampled_from([bytes(12), bytes(10) + b"\xff\xff"]), octets(4), octets(24)
).map(lambda parts: attribute(number("IPV6"), b"".join(parts)))


@st.composite
def geneve_options(draw: st.DrawFn) -> bytes:
    options = b""
    for _ in range(draw(st.integers(0, 3))):
        words = draw(st.integers(0, 31))
        options += (
            draw(octets(3)) + bytes([words]) + draw(octets(4 * words) if words else st.just(b""))
        )
    return attribute(8, options)


@st.composite
def erspan_metadata(draw: st.DrawFn) -> bytes:
    version = draw(st.integers(0, 3))
    # ovs-dpctl leaves out the upper two bits of the hardware ID; ours does not.
    no_upper_hwid = draw(st.integers(0, 255)) & 0xFC
    body = draw(octets(6)) + bytes([no_upper_hwid]) + draw(octets(1))
    return attribute(15, struct.pack("=i", version) + body)


TUNNEL_LENGTHS = {0: 8, 1: 4, 2: 4, 3: 1, 4: 1, 5: 0, 6: 0, 7: 0, 9: 2, 10: 2, 12: 16, 13: 16}


@st.composite
def tunnels(draw: st.DrawFn) -> bytes:
    parts = []
    for kind in draw(st.lists(st.sampled_from(list(TUNNEL_LENGTHS)), unique=True)):
        length = TUNNEL_LENGTHS[kind]
        parts.append(attribute(kind, draw(octets(length)) if length else b""))
    if draw(st.booleans()):
        parts.append(draw(geneve_options()))
    if draw(st.booleans()):
        parts.append(attribute(11, attribute(1, draw(octets(4)))))
    if draw(st.booleans()):
        parts.append(draw(erspan_metadata()))
    return attribute(number("TUNNEL"), b"".join(parts))


@st.composite
def nsh_headers(draw: st.DrawFn) -> bytes:
    md_type = draw(st.sampled_from([1, 2]))
    base = draw(octets(2)) + bytes([md_type]) + draw(octets(5))
    return attribute(number("NSH"), attribute(1, base) + attribute(2, draw(octets(16))))


label_stacks = st.integers(1, 3).flatmap(lambda n: field("MPLS", 4 * n))
unknown = st.tuples(st.integers(33, 200), st.binary(max_size=9)).map(lambda a: attribute(*a))

single = st.one_of(
    *(field(name, length) for name, length in FIXED.items()),
    ipv6_embedding_ipv4,
    tunnels(),
    nsh_headers(),
    label_stacks,
    unknown,
)


def encapsulated(parts: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    return nest(number("ENCAP"), st.lists(parts, max_size=4))


keys = st.lists(single | encapsulated(single | encapsulated(single)), min_size=1, max_size=12).map(
    b"".join
)
