"""What a flow matches, written; and which flows packets can hit."""

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.errors import UsageError
from kernel_delay.openvswitch.flow_key import FlowFilter, format_match
from kernel_delay.openvswitch.flow_key.subfields import LAYOUTS
from kernel_delay.openvswitch.flow_key.text import NAMES, TERMS

NUMBERS = {term: NAMES.index(name) for name, term in TERMS.items()}


def attribute(term: str, payload: bytes) -> bytes:
    header = struct.pack("=HH", 4 + len(payload), NUMBERS[term])
    return header + payload + bytes(-len(payload) % 4)


def u32(value: int) -> bytes:
    return struct.pack("=I", value)


def packet_type(payload: bytes) -> bytes:
    return attribute("packet_type", payload)


def ipv4(source: str, destination: str, rest: bytes) -> bytes:
    return ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed + rest


# A flow of a bridge that looks at the destination's network and at all of the ports.
KEY = b"".join(
    [
        attribute("recirc_id", u32(0)),
        attribute("in_port", u32(2)),
        attribute("ct_mark", u32(7)),
        attribute("eth", bytes.fromhex("020000000001020000000002")),
        attribute("eth_type", b"\x08\x00"),
        attribute("ipv4", ipv4("198.18.0.1", "10.1.2.3", bytes([17, 0, 64, 0]))),
        attribute("udp", struct.pack("!HH", 1024, 53)),
    ]
)
MASK = b"".join(
    [
        attribute("recirc_id", b"\xff" * 4),
        attribute("in_port", b"\xff" * 4),
        attribute("ct_mark", bytes(4)),
        attribute("eth", b"\xff" * 6 + bytes(6)),
        attribute("eth_type", b"\xff" * 2),
        attribute("ipv4", ipv4("0.0.0.0", "255.0.0.0", bytes([255, 0, 0, 255]))),
        attribute("udp", struct.pack("!HH", 0xFFFF, 0xFFF0)),
    ]
)
WRITTEN = (
    "recirc_id(0),in_port(2),eth(src=02:00:00:00:00:01),eth_type(0x0800),"
    "ipv4(dst=10.1.2.3/255.0.0.0,proto=17,frag=no),udp(src=1024,dst=53/0xfff0)"
)


def test_match_has_only_what_the_mask_leaves() -> None:
    assert format_match(KEY, MASK) == WRITTEN


def test_without_a_mask_all_of_it_counts() -> None:
    assert format_match(KEY, b"") == (
        "recirc_id(0),in_port(2),ct_mark(0x7),"
        "eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),"
        "ipv4(src=198.18.0.1,dst=10.1.2.3,proto=17,tos=0,ttl=64,frag=no),udp(src=1024,dst=53)"
    )


def test_vlan_tags_are_nested_and_their_parts_apart() -> None:
    inner = attribute("eth_type", b"\x86\xdd")
    key = attribute("eth_type", b"\x81\x00") + attribute("vlan", b"\x70\x05")
    mask = attribute("eth_type", b"\xff\xff") + attribute("vlan", b"\x1f\xff")
    tagged = key + attribute("encap", inner)
    masked = mask + attribute("encap", attribute("eth_type", b"\xff\xff"))
    assert format_match(tagged, masked) == "eth_type(0x8100),vlan(vid=5),encap(eth_type(0x86dd))"
    mask = attribute("eth_type", b"\xff\xff") + attribute("vlan", b"\xe0\x00")
    assert format_match(key, mask) == "eth_type(0x8100),vlan(pcp=3)"


def test_a_part_of_the_key_is_reported_as_such() -> None:
    assert format_match(KEY[:20], MASK, len(KEY)) == (
        f"recirc_id(0),in_port(2),ct_mark(<0 of 4 bytes: >),<20 of {len(KEY)} bytes captured>"
    )


def test_what_the_mask_leaves_out_is_wildcarded() -> None:
    key = KEY + attribute("tcp_flags", b"\x00\x02")
    assert format_match(key, MASK) == WRITTEN
    assert FlowFilter("tcp_flags(fin/fin)").covers(key, MASK)
    # Without a mask at all, it is exact.
    assert format_match(key, b"").endswith(",tcp_flags(syn)")
    assert not FlowFilter("tcp_flags(fin/fin)").covers(key, b"")


def test_missing_eth_type_is_formatted_as_zero() -> None:
    key, mask = attribute("in_port", u32(2)), attribute("in_port", b"\xff" * 4)
    mask += attribute("eth_type", b"\xff\xff")
    assert format_match(key, mask) == "in_port(2),eth_type(0/0xffff)"


@pytest.mark.parametrize(
    ("value", "mask", "written"),
    [
        (0x30, 0x21, "ct_state(-new+trk)"),
        (0x21, 0x20, "ct_state(+trk)"),
        (0x20, 0xFFFFFFFF, "ct_state(trk)"),
    ],
)
def test_flags_are_written_as_far_as_they_count(value: int, mask: int, written: str) -> None:
    key, masked = attribute("ct_state", u32(value)), attribute("ct_state", u32(mask))
    assert format_match(key, masked) == written
    assert FlowFilter(written).covers(key, masked)
    assert not FlowFilter("ct_state(-trk)").covers(key, masked)


def test_each_of_nested_tags_is_found() -> None:
    inner = attribute("eth_type", b"\x08\x00")
    key = attribute("eth_type", b"\x81\x00") + attribute("vlan", b"\x70\x64")
    mask = attribute("eth_type", b"\xff\xff") + attribute("vlan", b"\xff\xff")
    tagged = key + attribute("encap", inner)
    masked = mask + attribute("encap", attribute("eth_type", b"\xff\xff"))
    for text in ("eth_type(0x8100),vlan(vid=100)", "eth_type(0x8100)", "eth_type(0x0800)"):
        assert FlowFilter(text).covers(tagged, masked)
    assert not FlowFilter("eth_type(0x86dd)").covers(tagged, masked)


def test_flow_of_any_protocol_covers_each_protocol() -> None:
    any_protocol = attribute("ipv4", ipv4("0.0.0.0", "0.0.0.0", bytes([0, 0, 0, 255])))
    mask = attribute("eth_type", b"\xff\xff") + any_protocol
    assert FlowFilter("tcp(dst=53)").covers(KEY, mask)
    assert not FlowFilter("tcp(dst=53)").covers(KEY, MASK)


@pytest.mark.parametrize(
    "text",
    ["vlan(vid=4196)", "vlan(pcp=8)", "ipv6(label=0x112345)", "tcp_flags(0x1000)", "in_port(2,3)"],
)
def test_a_value_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        FlowFilter(text)


def test_what_has_no_parts_here_is_shown_whole() -> None:
    found = format_match(packet_type(bytes(4)), packet_type(b"\xff" * 4))
    assert found == "packet_type(ns=0,id=0)"
    found = format_match(packet_type(bytes(4)), packet_type(b"\xff\0\0\0"))
    assert found == "packet_type(ns=0,id=0)/ff 00 00 00"
    assert format_match(packet_type(bytes(4)), packet_type(bytes(4))) == ("<empty>")


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_written(key: bytes, mask: bytes) -> None:
    assert format_match(key, mask).isprintable()
    assert FlowFilter("udp(dst=53)").covers(key, mask) in (True, False)


@pytest.mark.parametrize(
    ("text", "covers"),
    [
        ("", True),
        (WRITTEN, True),
        ("udp()", True),
        ("tcp()", False),
        ("in_port(2)", True),
        ("in_port(3)", False),
        ("ipv4(dst=10.0.0.0/8)", True),
        ("ipv4(dst=10.9.9.9)", True),  # the flow looks at the first byte alone
        ("ipv4(dst=11.0.0.0/8)", False),
        ("ipv4(dst=11.0.0.0/7)", True),
        ("ipv4(dst=12.0.0.0/7)", False),
        ("ipv4(dst=11.0.0.0/254.0.0.0)", True),
        ("ipv4(src=1.2.3.4)", True),  # wildcarded
        ("ipv4(src=1.2.3.4,proto=6)", False),
        ("udp(dst=48)", True),
        ("udp(dst=64)", False),
        ("udp(dst=64/0x3)", True),
        ("udp(src=1024/0xff00)", True),
        ("udp(src=1030/0xfffe)", False),
        ("eth(src=02:00:00:00:00:01)", True),
        ("eth(src=02:00:00:00:00:09/00:00:00:00:00:01)", True),
        ("eth(src=02:00:00:00:00:08/00:00:00:00:00:01)", False),
        ("eth_type(0x0800), ipv4(frag=no)", True),
        ("ipv4(frag=first)", False),
        ("ct_mark(0x9)", True),
    ],
)
def test_which_packets_hit_a_flow(text: str, covers: bool) -> None:
    assert FlowFilter(text).covers(KEY, MASK) is covers


def test_filter_accepts_the_packet_type_of_userspace_datapaths() -> None:
    of_netdev = packet_type(bytes(4)) + attribute("eth_type", b"\x08\x00")
    written = format_match(of_netdev, b"")
    assert written == "packet_type(ns=0,id=0),eth_type(0x0800)"
    assert FlowFilter(written).covers(of_netdev, b"")
    assert not FlowFilter("packet_type(ns=1,id=0x800)").covers(of_netdev, b"")
    # The kernel's flows do not have it.
    assert FlowFilter(written).covers(KEY, MASK)
    assert not FlowFilter("packet_type(ns=1,id=0x800)").covers(KEY, MASK)
    assert not FlowFilter("packet_type(ns=0)").covers(attribute("eth_type", b"\x08\x00"), b"")


def test_filter_accepts_encap_as_it_is_formatted() -> None:
    inner = attribute("eth_type", b"\x08\x00") + attribute("ipv4", bytes(8) + bytes([6, 0, 0, 0]))
    tags = attribute("eth_type", b"\x81\x00") + attribute("vlan", b"\x10\x05")
    key = tags + attribute("encap", inner)
    written = format_match(key, b"")
    assert "encap(eth_type(0x0800),ipv4(" in written
    assert FlowFilter(written).covers(key, b"")
    assert FlowFilter("vlan(vid=5),encap()").covers(key, b"")
    assert FlowFilter("encap(encap(ipv4(proto=6)))").covers(key, b"")
    assert not FlowFilter(written.replace("proto=6", "proto=7")).covers(key, b"")
    assert not FlowFilter("vlan(vid=6),encap(eth_type(0x0800))").covers(key, b"")


def test_filter_accepts_zero_eth_type_as_it_is_formatted() -> None:
    key, mask = attribute("in_port", u32(2)), attribute("eth_type", b"\xff\xff")
    written = format_match(key, mask)
    assert written == "in_port(2),eth_type(0/0xffff)"
    assert FlowFilter(written).covers(key, mask)
    assert not FlowFilter("eth_type(0x0800)").covers(key, mask)
    assert FlowFilter("eth_type(0x0800)").covers(key, mask, cut=True)


def test_filter_does_not_reject_fields_beyond_the_cut() -> None:
    cut = KEY[:36]
    assert not FlowFilter("udp(dst=53)").covers(cut, MASK)
    assert FlowFilter("udp(dst=53)").covers(cut, MASK, cut=True)
    assert FlowFilter("udp(dst=64)").covers(KEY, MASK[:36], cut=True)
    assert not FlowFilter("in_port(3)").covers(cut, MASK[:36], cut=True)


@given(
    *(st.integers(0, 15) for _ in range(4)),
)
def test_a_flow_is_covered_where_one_packet_hits_both(
    value: int, mask: int, asked: int, asked_mask: int
) -> None:
    port = LAYOUTS["udp"].parts[1]
    found = FlowFilter(f"udp(dst={asked}/{asked_mask:#x})").covers(
        attribute("udp", struct.pack("!HH", 0, value)),
        attribute("udp", struct.pack("!HH", 0, mask)),
    )
    assert port.name == "dst"
    # By trying each packet there is.
    assert found == any(
        packet & mask == value & mask and packet & asked_mask == asked & asked_mask
        for packet in range(16)
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("udp(", "malformed"),
        ("udp", "malformed"),
        ("encap(udp(", "malformed"),
        ("frob(1)", "'frob' is none of"),
        ("udp(port=5)", "udp has the parts src, dst"),
        ("in_port(src=5)", "in_port has a value alone"),
        ("udp(dst=70000)", "no number of 2 bytes"),
        ("udp(dst=dns)", "'dns' is no number"),
        ("udp(dst=)", "'' is no number"),
        ("vlan(pcp=high)", "'high' is no number"),
        # As with `dpctl/dump-flows -m` a port is written.
        ("in_port(veth0)", "'veth0' is no number: 'ovs-appctl dpctl/show' has those of the ports"),
        ("ipv4(src=10.0.0.0/33)", "more than the address's 32 bits"),
        ("ipv4(src=::1)", "another version of IP"),
        ("eth(src=2:0)", "no Ethernet address"),
        ("vlan(pcp=9)", "9 is more than fits"),
    ],
)
def test_a_malformed_filter_is_one_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        FlowFilter(text)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_the_parts_of_an_attribute_do_not_overlap() -> None:
    for layout in LAYOUTS.values():
        taken = bytearray(layout.length)
        for part in layout.parts:
            assert part.offset + part.length <= layout.length
            for at, bits in enumerate(part.whole, part.offset):
                assert not taken[at] & bits
                taken[at] |= bits
