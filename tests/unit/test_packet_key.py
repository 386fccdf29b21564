"""The headers of packets, which scapy made, as a flow key."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet

from kernel_delay.openvswitch.flow_key import format_key, packet_key

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
WRITTEN = "eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),"
SOURCE, DESTINATION = "198.18.0.1", "10.1.2.3"
IPV4 = f"eth_type(0x0800),ipv4(src={SOURCE},dst={DESTINATION},"
IPV6 = "eth_type(0x86dd),ipv6(src=2001:db8::1,dst=fe80::2,"


def ipv4(**fields: Any) -> Packet:
    return IP(src=SOURCE, dst=DESTINATION, ttl=64, **fields)


def ipv6() -> Packet:
    return IPv6(src="2001:db8::1", dst="fe80::2", fl=0x12345, tc=4, hlim=9)


@pytest.mark.parametrize(
    ("packet", "written"),
    [
        (
            ETHER / ipv4(tos=4) / UDP(sport=1024, dport=53),
            IPV4 + "proto=17,tos=0x4,ttl=64,frag=no),udp(src=1024,dst=53)",
        ),
        (
            ETHER / ipv4(options=b"\x01\x01\x01\x01") / TCP(sport=1, dport=2, flags="SA"),
            IPV4 + "proto=6,tos=0,ttl=64,frag=no),tcp(src=1,dst=2),tcp_flags(syn|ack)",
        ),
        (
            ETHER / ipv4(flags="MF") / ICMP(type=8),
            IPV4 + "proto=1,tos=0,ttl=64,frag=first),icmp(type=8,code=0)",
        ),
        (ETHER / ipv4(frag=5, proto=17) / bytes(20), IPV4 + "proto=17,tos=0,ttl=64,frag=later)"),
        (
            ETHER / Dot1AD(vlan=7, prio=3) / Dot1Q(vlan=5) / ipv4() / UDP(sport=1, dport=2),
            "eth_type(0x88a8),vlan(vid=7,pcp=3),encap(eth_type(0x8100),vlan(vid=5,pcp=0),"
            f"encap({IPV4}proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)))",
        ),
        (
            ETHER / ipv6() / IPv6ExtHdrDestOpt() / ICMPv6EchoRequest(),
            IPV6 + "label=0x12345,proto=58,tclass=0x4,hlimit=9,frag=no),icmpv6(type=128,code=0)",
        ),
        (
            ETHER / ipv6() / IPv6ExtHdrFragment(offset=9, nh=17) / bytes(20),
            IPV6 + "label=0x12345,proto=17,tclass=0x4,hlimit=9,frag=later)",
        ),
        (
            ETHER / ARP(op=1, psrc=SOURCE, pdst=DESTINATION, hwsrc=ETHER.src, hwdst=ETHER.dst),
            f"eth_type(0x0806),arp(sip={SOURCE},tip={DESTINATION},op=1,sha={ETHER.src},"
            f"tha={ETHER.dst})",
        ),
        (ETHER / ipv4(proto=17) / bytes(3), IPV4 + "proto=17,tos=0,ttl=64,frag=no)"),
    ],
)
def test_headers_are_a_key(packet: Packet, written: str) -> None:
    assert format_key(packet_key(bytes(packet))) == WRITTEN + written


def test_a_packet_without_ethernet_has_its_type_beside_it() -> None:
    packet = bytes(ipv4() / UDP(sport=1024, dport=53))
    written = format_key(packet_key(packet, b"\x08\x00"))
    assert f"eth_type(0x0800),{written}" == (
        IPV4 + "proto=17,tos=0,ttl=64,frag=no),udp(src=1024,dst=53)"
    )


@given(st.binary(max_size=120), st.sampled_from([b"", b"\x08\x00", b"\x86\xdd", b"\x81\x00"]))
def test_any_bytes_have_a_key(data: bytes, kind: bytes) -> None:
    assert "<" not in format_key(packet_key(bytes(12) + kind + data)).replace("<empty>", "")
