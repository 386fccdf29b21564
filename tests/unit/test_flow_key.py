"""The flow key decoder: the slides' lines, bytes that lie, and any bytes at all."""

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.host.netlink import walk
from kernel_delay.openvswitch.flow_key import (
    datapath_port,
    format_key,
    nlraw_lines,
    recirculation_id,
)
from kernel_delay.openvswitch.flow_key.text import NAMES, TERMS


def nlattr(kind: int, payload: bytes, length: int | None = None) -> bytes:
    claimed = len(payload) + 4 if length is None else length
    return struct.pack("=HH", claimed, kind) + payload + bytes(-len(payload) % 4)


RECIRC_ID = nlattr(20, bytes(4))
IN_PORT = nlattr(3, struct.pack("=I", 2))
CT_ZONE = nlattr(23, bytes(2))
ETHERNET = nlattr(4, bytes.fromhex("000001000000000002000000"))
TUNNEL = 16
ENCAP = 1

rows = st.lists(
    st.tuples(st.integers(0, 0xFFFF), st.integers(0, 60), st.binary(max_size=48)), max_size=8
).map(lambda parts: b"".join(nlattr(kind, data, length) for kind, length, data in parts))
any_bytes = st.binary(max_size=300) | rows


def test_nlraw_has_the_slides_lines() -> None:
    assert nlraw_lines(RECIRC_ID + IN_PORT + CT_ZONE) == [
        "nla_len 8, nla_type OVS_KEY_ATTR_RECIRC_ID[20], data: 00 00 00 00",
        "nla_len 8, nla_type OVS_KEY_ATTR_IN_PORT[3], data: 02 00 00 00",
        "nla_len 6, nla_type OVS_KEY_ATTR_CT_ZONE[23], data: 00 00",
    ]


def test_nlraw_names_what_it_does_not_know() -> None:
    assert nlraw_lines(nlattr(77, b"\x01")) == ["nla_len 5, nla_type <unknown>[77], data: 01"]


def test_flag_bits_are_not_part_of_an_attribute_type() -> None:
    assert format_key(nlattr(3 | 0x8000, struct.pack("=I", 7))) == "in_port(7)"


def test_cut_key_is_formatted_up_to_the_cut() -> None:
    key = IN_PORT + ETHERNET
    assert nlraw_lines(key[:17], len(key)) == [
        "nla_len 8, nla_type OVS_KEY_ATTR_IN_PORT[3], data: 02 00 00 00",
        "nla_len 16, nla_type OVS_KEY_ATTR_ETHERNET[4], data: 00 00 01 00 00 ...",
        "<17 of 24 bytes captured>",
    ]
    assert format_key(key[:17], len(key)) == (
        "in_port(2),eth(<5 of 12 bytes: 00 00 01 00 00>),<17 of 24 bytes captured>"
    )


@pytest.mark.parametrize("captured", [8, 10])
def test_a_key_cut_before_a_header_says_so(captured: int) -> None:
    key = IN_PORT + ETHERNET
    text = format_key(key[:captured], len(key))
    assert text.startswith(f"in_port(2),<{captured} of 24 bytes captured")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"", "<empty>"),
        (b"\x08\x00", "<2 bytes left over, too few for a header: 08 00>"),
        (
            IN_PORT + nlattr(4, b"", 3),
            "in_port(2),<nla_len 3 is less than its own header: 03 00 04 00>",
        ),
        (
            nlattr(4, bytes(4), 16),
            "eth(<4 of 12 bytes: 00 00 00 00>),<nla_len 16 goes past the end, 8 bytes are left>",
        ),
        (nlattr(7, b"\x01\x02\x03"), "ipv4(<length 3, not 12: 01 02 03>)"),
        (nlattr(21, b"\x01"), "mpls(<length 1, not a multiple of 4: 01>)"),
        (nlattr(21, b""), "mpls(<length 0, not a multiple of 4: >)"),
        (
            nlattr(7, bytes(11) + b"\x09"),
            "ipv4(src=0.0.0.0,dst=0.0.0.0,proto=0,tos=0,ttl=0,frag=<error>)",
        ),
    ],
)
def test_what_can_not_be_decoded_is_said(key: bytes, text: str) -> None:
    assert format_key(key) == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (nlattr(3, b""), "key3(<length 0, not 1: >),flags(0)"),
        (nlattr(0, b"\x01"), "key0(<length 1, not 8: 01>),flags(key)"),
        (nlattr(8, b"\x01\x02\x80\x01"), "geneve(<option claims 4 bytes of 0: >),flags(0)"),
        (nlattr(8, b"\x01\x02"), "geneve(<2 bytes left over: 01 02>),flags(0)"),
        (nlattr(11, nlattr(1, b"\x01")), "vxlan(gbp(<length 1, not 4: 01>)),flags(0)"),
        (
            nlattr(11, nlattr(1, b"", 8)),
            "vxlan(key1(<0 of 4 bytes: >),<nla_len 8 goes past the "
            "end, 4 bytes are left>),flags(0)",
        ),
        (nlattr(15, bytes(4)), "key15(<length 4, not 12: 00 00 00 00>),flags(0)"),
        (
            nlattr(15, struct.pack("=i", 2) + bytes(6) + b"\x02\x18"),
            "erspan(ver=2,dir=1,hwid=0x21),flags(0)",
        ),
        (nlattr(16, b""), "ipv4_info_bridge,flags(0)"),
        (nlattr(16, b"\x30\xff"), "gtpu(flags=0x30,msgtype=255),flags(0)"),
        (nlattr(16, b"\x30"), "gtpu(<length 1, not 2: 30>),flags(0)"),
        (nlattr(99, b"\x30"), "key99(30),flags(0)"),
    ],
)
def test_a_tunnel_says_what_it_can_not_decode(options: bytes, text: str) -> None:
    assert format_key(nlattr(TUNNEL, options)) == f"tunnel({text})"


def test_nesting_has_a_bound() -> None:
    key = b""
    for _ in range(2000):
        key = nlattr(ENCAP, key)
    text = format_key(key)
    assert "nested deeper than 8" in text
    assert text.count("encap(") == 9


@given(any_bytes, st.integers(0, 400))
def test_any_bytes_are_walked_without_reading_past_the_end(data: bytes, more: int) -> None:
    row = walk(data, len(data) + more)
    read = b"".join(struct.pack("=H", a.length) + a.payload for a in row.found)
    assert len(read) <= len(data)
    assert all(attribute.payload in data for attribute in row.found)
    assert all(attribute.complete for attribute in row.found[:-1])
    if row.problem is None:
        assert more == 0
        end = sum((attribute.length + 3) & ~3 for attribute in row.found)
        assert end - 3 <= len(data) <= end


@given(any_bytes, st.integers(0, 400))
def test_any_bytes_have_a_text_of_bounded_length(data: bytes, more: int) -> None:
    size = len(data) + more
    for text in (format_key(data, size), *nlraw_lines(data, size)):
        assert text.isascii()
        assert text.isprintable()
        # A byte is at most "00 ", in brackets with a sentence, once for each level it nests in.
        assert len(text) <= 200 * (len(data) + 1)


@given(st.sampled_from(range(len(NAMES))), st.binary(max_size=64))
def test_any_payload_of_any_attribute_has_a_text(kind: int, payload: bytes) -> None:
    term = TERMS.get(NAMES[kind], f"key{kind}")
    text = format_key(nlattr(kind, payload))
    assert re.fullmatch(rf"{term}\(.*\)", text)


@given(any_bytes)
def test_lookups_take_any_bytes(data: bytes) -> None:
    for value in (datapath_port(data), recirculation_id(data)):
        assert value is None or 0 <= value < 1 << 32


def test_lookups() -> None:
    assert datapath_port(RECIRC_ID + IN_PORT) == 2
    assert recirculation_id(IN_PORT + nlattr(20, struct.pack("=I", 9))) == 9
    assert datapath_port(RECIRC_ID) is None
    assert datapath_port(IN_PORT[:6]) is None
