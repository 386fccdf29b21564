"""Tunnels, stacks of labels and tracked connections that flows match: written, and filtered for.

What is expected of the text is what `ovs-appctl dpctl/dump-flows` of Open vSwitch 3.5 prints.
"""

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.errors import UsageError
from kernel_delay.openvswitch.flow_key import FlowFilter, format_match
from tests.unit.test_flow_match import attribute

Nest = dict[int, bytes]

# OVS_TUNNEL_KEY_ATTR_* of include/uapi/linux/openvswitch.h.
ID, SRC, DST, TOS, TTL, DF, CSUM, GENEVE, TP_SRC, TP_DST = 0, 1, 2, 3, 4, 5, 6, 8, 9, 10
VXLAN, IPV6_SRC, IPV6_DST, ERSPAN, GTPU = 11, 12, 13, 15, 16
LENGTHS = {ID: 8, SRC: 4, DST: 4, TOS: 1, TTL: 1, TP_SRC: 2, TP_DST: 2}


def nested(parts: Nest) -> bytes:
    return b"".join(
        struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)
        for kind, data in parts.items()
    )


def tunnel(parts: Nest) -> bytes:
    return attribute("tunnel", nested(parts))


def ip(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


def number(value: int, length: int) -> bytes:
    return value.to_bytes(length)


def exact(parts: Nest) -> Nest:
    return {kind: b"\xff" * len(data) for kind, data in parts.items()}


def shown(parts: Nest, mask: Nest) -> str:
    return format_match(tunnel(parts), tunnel(mask))


PARTS = {
    ID: number(1, 8),
    SRC: ip("10.0.0.1"),
    DST: ip("10.1.2.3"),
    TOS: b"\x10",
    TTL: b"\x40",
    CSUM: b"",
    TP_SRC: number(1, 2),
    TP_DST: number(4789, 2),
}
MASK = exact(PARTS) | {
    ID: number(0xFF, 8),
    SRC: ip("255.255.255.0"),
    TOS: b"\xf0",
    TTL: b"\x40",
    DF: b"",
    TP_SRC: number(1, 2),
}
WRITTEN = (
    "tunnel(tun_id=0x1/0xff,src=10.0.0.1/255.255.255.0,dst=10.1.2.3,tos=0x10/0xf0,ttl=64/0x40,"
    "tp_src=1/0x1,tp_dst=4789,flags(-df+csum+key))"
)
OF_IPV6 = {ID: number(7, 8), IPV6_SRC: ip("fd00::1"), IPV6_DST: ip("fd00::2"), DF: b""}


def test_parts_of_a_tunnel_have_their_masks() -> None:
    assert shown(PARTS, MASK) == WRITTEN


def test_what_is_wildcarded_of_a_tunnel_is_left_out() -> None:
    mask = {DST: b"\xff" * 4, DF: b"", CSUM: b""}
    assert shown(PARTS, mask) == "tunnel(dst=10.1.2.3,flags(-df+csum+key))"
    assert format_match(tunnel(PARTS), attribute("in_port", bytes(4))) == "tunnel(flags(+key))"
    assert format_match(tunnel({SRC: bytes(4)}), attribute("in_port", bytes(4))) == "tunnel()"


def test_a_tunnel_of_ipv6() -> None:
    mask = exact(OF_IPV6) | {IPV6_SRC: ip("ffff::"), CSUM: b""}
    assert shown(OF_IPV6, mask) == (
        "tunnel(tun_id=0x7,ipv6_src=fd00::1/ffff::,ipv6_dst=fd00::2,flags(+df-csum+key))"
    )
    assert shown({ID: bytes(8)}, {ID: b"\xff" * 8, 5: b"", 6: b"", 7: b""}) == (
        "tunnel(tun_id=0x0,flags(key))"
    )


OPTION = struct.pack("!HBB", 0x102, 0x80, 1) + number(0x30003, 4)
OPTION_MASK = b"\xff\xff\xff\x1f" + number(0xFF, 4)
GBP, GBP_MASK = struct.pack("=HHI", 8, 1, 0x80005), struct.pack("=HHI", 8, 1, 0xFF00FF)
ERSPAN_2 = struct.pack("=i", 1) + number(0x12, 4) + bytes(4)
ERSPAN_3 = struct.pack("=i", 2) + bytes(6) + b"\x00\x78"


@pytest.mark.parametrize(
    ("kind", "data", "mask", "written"),
    [
        (GENEVE, OPTION, OPTION_MASK, "geneve({class=0x102,type=0x80,len=4,0x30003/0xff})"),
        (GENEVE, OPTION, bytes(8), "geneve({})"),
        (GENEVE, OPTION, None, "geneve({})"),
        (GENEVE, OPTION[:6], OPTION_MASK[:6], "geneve(<option claims 4 bytes of 2: 00 03>)"),
        (VXLAN, GBP, GBP_MASK, "vxlan(gbp(id=5/0xff,flags=0x8))"),
        (VXLAN, GBP, None, "vxlan(gbp())"),
        (ERSPAN, ERSPAN_2, b"\xff" * 12, "erspan(ver=1,idx=0x12/0xffffffff)"),
        (ERSPAN, ERSPAN_2, None, "erspan(idx=0x12/0)"),
        (ERSPAN, ERSPAN_3, b"\xff" * 12, "erspan(ver=2,dir=1/0x1,hwid=0x7/0x3f)"),
        (GTPU, b"\x30\xff", b"\xf0\xff", "gtpu(flags=0x30/0xf0,msgtype=255)"),
    ],
)
def test_options_have_their_masks(kind: int, data: bytes, mask: bytes | None, written: str) -> None:
    found = shown({kind: data}, {TTL: b"\xff"} | ({} if mask is None else {kind: mask}))
    assert found.startswith(f"tunnel({written}")


STACK = struct.pack("!II", 100 << 12 | 3 << 9 | 64, 200 << 12 | 1 << 8)
STACK_MASK = struct.pack("!II", 0xFFFFFEFF | 1 << 8, 0xFFF00 << 12 | 1 << 8)


def test_each_label_of_a_stack_has_its_masks() -> None:
    key, mask = attribute("mpls", STACK), attribute("mpls", STACK_MASK)
    assert format_match(key, mask) == (
        "mpls(label=100/0xfffff,tc=3/7,ttl=64/0xff,bos=0/1,"
        "label=200/0xfff00,tc=0/0,ttl=0/0x0,bos=1/1)"
    )
    assert format_match(key, attribute("mpls", b"\xff" * 8)) == (
        "mpls(label=100,tc=3,ttl=64,bos=0,label=200,tc=0,ttl=0,bos=1)"
    )


TUPLE = ip("10.0.0.0") + ip("1.2.3.4") + struct.pack("!HHB3x", 80, 443, 6)
TUPLE_MASK = ip("255.0.0.0") + b"\xff" * 4 + struct.pack("!HHB3x", 0xFFF0, 0xFFFF, 0xFF)
TUPLE6 = ip("fd00::5") + ip("fd00::2") + struct.pack("!HHB3x", 80, 53, 17)
TUPLE6_MASK = ip("ffff::") + b"\xff" * 16 + struct.pack("!HHB3x", 0xFFF0, 0xFFFF, 0xFF)


def test_the_connection_s_addresses_have_their_masks() -> None:
    key, mask = attribute("ct_tuple4", TUPLE), attribute("ct_tuple4", TUPLE_MASK)
    assert format_match(key, mask) == (
        "ct_tuple4(src=10.0.0.0/255.0.0.0,dst=1.2.3.4,proto=6,tp_src=80/0xfff0,tp_dst=443)"
    )
    key, mask = attribute("ct_tuple6", TUPLE6), attribute("ct_tuple6", TUPLE6_MASK)
    assert format_match(key, mask) == (
        "ct_tuple6(src=fd00::5/ffff::,dst=fd00::2,proto=17,src_port=80/0xfff0,dst_port=53)"
    )


@pytest.mark.parametrize(
    ("text", "covers"),
    [
        (WRITTEN, True),
        ("tunnel()", True),
        ("tunnel(tun_id=1)", True),
        ("tunnel(tun_id=0x101)", True),  # the flow looks at the lowest byte alone
        ("tunnel(tun_id=2)", False),
        ("tunnel(tun_id=2/0xfe)", False),
        ("tunnel(src=10.0.0.0/24,dst=10.1.2.3)", True),
        ("tunnel(src=10.0.1.0/24)", False),
        ("tunnel(tp_dst=4789,flags(+csum)),in_port(2)", True),
        ("tunnel(flags(-csum))", False),
        ("tunnel(flags(+oam))", True),  # not looked at
        ("tunnel(flags(csum|key))", True),
        ("tunnel(flags(df|key))", False),
        ("tunnel(ipv6_src=fd00::1)", False),
        ("mpls()", False),
        ("tunnel(ttl=63),in_port(3)", False),
    ],
)
def test_which_packets_of_a_tunnel_hit_a_flow(text: str, covers: bool) -> None:
    port = attribute("in_port", struct.pack("=I", 2))
    mask = tunnel(MASK) + attribute("in_port", b"\xff" * 4)
    assert FlowFilter(text).covers(tunnel(PARTS) + port, mask) is covers


def test_a_tunnel_of_ipv6_is_none_of_ipv4() -> None:
    key, mask = tunnel(OF_IPV6), tunnel(exact(OF_IPV6))
    assert FlowFilter("tunnel(ipv6_src=fd00::/16)").covers(key, mask)
    assert not FlowFilter("tunnel(src=10.0.0.1)").covers(key, mask)
    assert not FlowFilter("tunnel(src=10.0.0.1)").covers(key, b"")


def test_filter_does_not_reject_the_cut_part_of_tunnels() -> None:
    key = tunnel(PARTS)[:20]
    assert FlowFilter("tunnel(tun_id=9,src=1.2.3.4)").covers(key, tunnel(MASK), cut=True)
    assert FlowFilter("tunnel(dst=1.2.3.4)").covers(tunnel(PARTS), tunnel(MASK)[:24], cut=True)


@pytest.mark.parametrize(
    ("text", "covers"),
    [
        ("mpls(label=100)", True),
        ("mpls(label=200)", False),
        ("mpls(tc=3/7,bos=0)", True),
        ("mpls(label=100,label=200)", True),
        ("mpls(label=100,label=201)", True),  # its lowest byte is not looked at
        ("mpls(label=100,label=512)", False),
        ("mpls(label=100,bos=0,label=200,bos=1)", True),
        ("mpls(label=100,label=200,label=300)", False),  # the second is the last
    ],
)
def test_which_packets_with_labels_hit_a_flow(text: str, covers: bool) -> None:
    key, mask = attribute("mpls", STACK), attribute("mpls", STACK_MASK)
    assert FlowFilter(text).covers(key, mask) is covers


def test_mpls_labels_below_those_of_the_flow_are_any() -> None:
    key, mask = attribute("mpls", STACK[:4]), attribute("mpls", STACK_MASK[:4])
    assert FlowFilter("mpls(label=100,label=300)").covers(key, mask)
    assert not FlowFilter("mpls(label=101,label=300)").covers(key, mask)


@pytest.mark.parametrize(
    ("text", "covers"),
    [
        ("ct_tuple4(src=10.9.9.9,dst=1.2.3.4)", True),
        ("ct_tuple4(src=11.0.0.0/8)", False),
        ("ct_tuple4(proto=17)", False),
        ("ct_tuple4(tp_src=95)", True),
        ("ct_tuple4(tp_src=96)", False),
        ("ct_tuple6()", False),
    ],
)
def test_which_connections_hit_a_flow(text: str, covers: bool) -> None:
    key, mask = attribute("ct_tuple4", TUPLE), attribute("ct_tuple4", TUPLE_MASK)
    assert FlowFilter(text).covers(key, mask) is covers


def test_what_is_written_is_read_back() -> None:
    for term, key, mask in (
        ("mpls", STACK, STACK_MASK),
        ("ct_tuple4", TUPLE, TUPLE_MASK),
        ("ct_tuple6", TUPLE6, TUPLE6_MASK),
    ):
        written = format_match(attribute(term, key), attribute(term, mask))
        assert FlowFilter(written).covers(attribute(term, key), attribute(term, mask))


@given(st.data())
def test_filter_covers_a_tunnel_as_it_is_formatted(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from([*LENGTHS]), unique=True, min_size=1))
    parts = {kind: data.draw(st.binary(min_size=n, max_size=n)) for kind, n in _sizes(kinds)}
    mask = {kind: data.draw(st.binary(min_size=n, max_size=n)) for kind, n in _sizes(kinds)}
    flags = dict.fromkeys(data.draw(st.sets(st.sampled_from([DF, CSUM, 7]))), b"")
    key = tunnel(parts | flags)
    for looked_at in (tunnel(mask | {DF: b"", CSUM: b""}), tunnel(exact(parts)), b""):
        assert FlowFilter(format_match(key, looked_at)).covers(key, looked_at)
    changed = {kind: bytes(byte ^ 0xFF for byte in value) for kind, value in parts.items()}
    wanted = format_match(tunnel(changed | flags), b"")
    assert FlowFilter(wanted).covers(key, tunnel(mask | flags)) == (
        not any(map(any, mask.values()))
    )


def _sizes(kinds: list[int]) -> list[tuple[int, int]]:
    return [(kind, LENGTHS[kind]) for kind in kinds]


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_of_a_tunnel_are_written(payload: bytes, mask: bytes) -> None:
    for term in ("tunnel", "mpls", "ct_tuple4"):
        key, looked_at = attribute(term, payload), attribute(term, mask)
        assert format_match(key, looked_at).isprintable()
        for text in ("tunnel(src=1.1.1.1)", "mpls(label=1,label=2)"):
            assert FlowFilter(text).covers(key, looked_at) in (True, False)


@given(st.dictionaries(st.integers(0, 17), st.binary(max_size=20)), st.data())
def test_any_parts_of_a_tunnel_are_written(parts: Nest, data: st.DataObject) -> None:
    mask = {kind: data.draw(st.binary(max_size=20)) for kind in parts}
    assert shown(parts, mask).isprintable()
    assert shown(parts, exact(parts)).isprintable()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tunnel(src=::1)", "another version of IP"),
        ("tunnel(vni=1)", "tunnel has the parts tun_id, src"),
        ("tunnel(flags(+frob))", "'frob' is none of oam, df"),
        ("tunnel(src=1.1.1.1,src=1.1.1.2)", "has a part twice"),
        ("tunnel(geneve({class=1}))", "filter"),
        ("mpls(label=1048576)", "more than fits"),
        ("mpls(tc=8)", "more than fits"),
        ("mpls(bos=2)", "more than fits"),
    ],
)
def test_what_can_not_be_asked_for_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        FlowFilter(text)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)
