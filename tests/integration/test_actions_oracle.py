"""Our text of flows' matches and actions against that of Open vSwitch's own ovs-dpctl."""

import itertools
import struct
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel_delay.host.netlink import walk
from kernel_delay.monitors.datapath_ops.actions import format_actions
from kernel_delay.monitors.datapath_ops.message import read_request
from kernel_delay.openvswitch.flow_key import format_match
from tests.integration.datapath_double import (
    DATAPATH,
    DatapathDouble,
    OvsDpctl,
    attribute,
    ovs_dpctl,
)
from tests.integration.test_flow_key_oracle import dpctl  # noqa: F401 - a fixture

SERIAL = itertools.count()
FLOW = (
    "recirc_id(0),in_port(2),eth(src=02:00:00:00:00:01/ff:ff:ff:00:00:00,dst=02:00:00:00:00:02),"
    "eth_type(0x0800),ipv4(src=10.1.2.3/255.0.0.0,dst=10.0.0.2,proto=17,tos=0/0x3,ttl=64,frag=no),"
    "udp(src=1024/0xff00,dst=53)"
)

# As ovs-dpctl reads them.
WRITTEN = (
    "",
    "2",
    "1,2,3",
    "userspace(pid=77)",
    "userspace(pid=77,userdata(0102030405))",
    "userspace(pid=77,userdata(0102030405),tunnel_out_port=10)",
    "userspace(pid=77,actions)",
    "userspace(pid=77,sFlow(vid=9,pcp=7,output=10))",
    "userspace(pid=77,slow_path(cfm),tunnel_out_port=10)",
    "userspace(pid=77,flow_sample(probability=123,collector_set_id=1234,obs_domain_id=2345,"
    "obs_point_id=3456,output_port=10,egress))",
    "userspace(pid=77,ipfix(output_port=10))",
    "userspace(pid=77,controller(reason=7,dont_send=1,continuation=0,recirc_id=4444,"
    "rule_cookie=0x5555,controller_id=0,max_len=65535))",
    "userspace(pid=77,controller(reason=1,dont_send=0,continuation=1,recirc_id=0,"
    "rule_cookie=0,controller_id=2,max_len=1))",
    "set(eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02))",
    "set(ipv4(src=1.2.3.4/255.255.255.0,ttl=3))",
    "set(skb_mark(0x5/0xff))",
    "push_vlan(vid=12,pcp=2)",
    "push_vlan(tpid=0x88a8,vid=12,pcp=0)",
    "pop_vlan,1",
    "sample(sample=50.0%,actions(1,2))",
    "ct",
    "ct(commit)",
    "ct(commit,zone=5,mark=0xa/0xff)",
    "ct(force_commit,zone=5)",
    "ct(commit,label=0x10/0xff)",
    "ct(commit,helper=ftp)",
    "ct(commit,timeout=slow)",
    "ct(nat)",
    "ct(commit,nat(src))",
    "ct(commit,nat(src=10.0.0.1-10.0.0.9:1000-2000,persistent,random))",
    "ct(commit,nat(dst=fe80::1,hash))",
    "ct(commit,nat(dst=[fe80::1]:80))",
    "ct_clear,3",
    "trunc(100),2",
    "meter(7)",
    "clone(1,push_vlan(vid=5,pcp=0),2),3",
    "check_pkt_len(size=200,gt(4),le(clone(5),6))",
    "push_nsh(flags=2,ttl=63,mdtype=1,np=3,spi=0x123456,si=254,c1=0x1,c2=0x2,c3=0x30,c4=0xffffffff)",
    "sample(sample=10.0%,actions(check_pkt_len(size=64,gt(ct(commit,nat(src))),le(pop_vlan))))",
)

# Those that it only prints, as the kernel's header has them.
LSE = struct.pack("!IHH", 5 << 12 | 1 << 9 | 1 << 8 | 64, 0x8847, 0)
NSH = 28
# Value and mask of each: TTL, a part of the path, all of the index; a part of the flags.
BASE = bytes([0, 62, 0, 0, 0, 0, 0x20, 7]) + bytes([0, 255, 0, 0, 0, 0xFF, 0xF0, 255])
FLAGS = bytes([1, *bytes(7)]) + bytes([3, *bytes(7)])


def cookie(kind: int, of_kind: bytes) -> bytes:
    """An action that sends packets to Open vSwitch, with its struct user_action_cookie."""
    userdata = struct.pack("=HxxI", kind, 65535) + bytes(16) + of_kind.ljust(24, b"\0")
    return attribute(2, attribute(1, struct.pack("=I", 77)) + attribute(2, userdata))


CONTEXT = struct.pack("!4I", 0, 5, 0, 0x50) + struct.pack("!4I", 0, 0xFFFFFFFF, 0, 0xF0)
ENCODED = {
    "set of nsh": attribute(11, attribute(NSH, attribute(1, BASE) + attribute(2, CONTEXT))),
    "flags of nsh": attribute(11, attribute(NSH, attribute(1, FLAGS) + attribute(2, CONTEXT))),
    "recirc": attribute(7, struct.pack("=I", 0x17)),
    "hash by L4": attribute(8, struct.pack("=II", 0, 3)),
    "symmetric hash": attribute(8, struct.pack("=II", 1, 3)),
    "push_mpls": attribute(9, LSE),
    "pop_mpls": attribute(10, b"\x08\x00"),
    "push_eth": attribute(14, bytes(range(12))),
    "pop_eth": attribute(15, b""),
    "pop_nsh": attribute(18, b""),
    "add_mpls": attribute(22, LSE),
    "no reason for a slow path": cookie(2, struct.pack("=II", 0, 0)),
    "reasons for a slow path": cookie(2, struct.pack("=II", 0, 0x61)),
    "reasons that are not known": cookie(2, struct.pack("=II", 0, 0x181)),
    "a cookie that is not known": cookie(6, b"\x01"),
    "several": attribute(1, struct.pack("=I", 4)) + attribute(16, b""),
}


def added(dpctl: OvsDpctl, flow: str, actions: str) -> bytes:  # noqa: F811
    """The request by which ovs-dpctl adds the flow."""
    double = DatapathDouble(dpctl.preload.with_name(f"actions{next(SERIAL)}"), [])
    try:
        ovs_dpctl(double, dpctl, "add-flow", f"system@{DATAPATH}", flow, actions)
        (request,) = double.requests
    finally:
        double.close()
    return request


def dumped(
    dpctl: OvsDpctl,  # noqa: F811
    flows: Sequence[tuple[bytes, bytes]],
    actions: bytes = b"",
) -> list[str]:
    double = DatapathDouble(dpctl.preload.with_name(f"actions{next(SERIAL)}"), flows, actions)
    try:
        return ovs_dpctl(double, dpctl, "dump-flows", f"system@{DATAPATH}")
    finally:
        double.close()


def test_actions_and_matches_read_as_ovs_dpctl_prints_them(dpctl: OvsDpctl) -> None:  # noqa: F811
    for actions in WRITTEN:
        message = added(dpctl, FLOW, actions)
        request = read_request("flow_new", message, len(message))
        assert request.actions is not None
        assert request.key is not None
        (line,) = dumped(dpctl, [(request.key, request.mask or b"")], request.actions)
        match, _, printed = line.partition(", packets:")
        assert format_actions(request.actions) == printed.partition("actions:")[2]
        assert format_match(request.key, request.mask or b"") == match
        assert "create" in request.flags


@pytest.mark.parametrize("name", ENCODED)
def test_each_action_reads_as_ovs_dpctl_prints_it(dpctl: OvsDpctl, name: str) -> None:  # noqa: F811
    key = attribute(3, struct.pack("=I", 2))
    (line,) = dumped(dpctl, [(key, b"")], ENCODED[name])
    assert format_actions(ENCODED[name]) == line.partition("actions:")[2]


def encoded(data: bytes) -> bytes:
    """The attributes that were found, written anew."""
    return b"".join(attribute(each.type, each.payload) for each in walk(data).found)


def test_what_is_decoded_is_the_whole_message(dpctl: OvsDpctl) -> None:  # noqa: F811
    message = added(dpctl, FLOW, "1,set(ipv4(ttl=3)),2")
    request = read_request("flow_new", message, len(message))
    assert request.problem is None
    parts = {1: request.key, 7: request.mask, 2: request.actions}
    for kind, part in parts.items():
        assert part is not None
        flags = 0x8000  # NLA_F_NESTED, which is not of the type
        body = struct.pack("=HH", 4 + len(part), kind)
        nested = struct.pack("=HH", 4 + len(part), kind | flags)
        assert body + part in message or nested + part in message
    for part in (request.key, request.mask):
        assert part is not None
        assert encoded(part) == part


FIELDS = {
    3: st.just(b"\xff" * 4),
    4: st.binary(min_size=12, max_size=12),
    6: st.just(b"\xff" * 2),
    7: st.tuples(st.binary(min_size=11, max_size=11), st.sampled_from([b"\0", b"\xff"])).map(
        b"".join
    ),  # a part of `frag` is an error
    10: st.binary(min_size=4, max_size=4),
    15: st.binary(min_size=4, max_size=4),
    20: st.just(b"\xff" * 4),
    24: st.binary(min_size=4, max_size=4),
}
"""Masks of attributes, by number: those that a flow always has are exact."""


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(
    masks=st.lists(st.tuples(*FIELDS.values()), min_size=5, max_size=20),
    ttl=st.integers(0, 255),
)
def test_any_mask_reads_as_ovs_dpctl_prints_it(
    dpctl: OvsDpctl,  # noqa: F811
    masks: list[tuple[bytes, ...]],
    ttl: int,
) -> None:
    key_of = {
        3: struct.pack("=I", 2),
        4: bytes.fromhex("020000000001020000000002"),
        6: b"\x08\x00",
        7: bytes([10, 1, 2, 3, 10, 0, 0, 2, 17, 4, ttl, 0]),
        10: struct.pack("!HH", 1024, 53),
        15: struct.pack("=I", 0x12345678),
        20: struct.pack("=I", 0),
        24: struct.pack("=I", 0xABCDEF01),
    }
    key = b"".join(attribute(kind, key_of[kind]) for kind in FIELDS)
    flows = [(key, b"".join(map(attribute, FIELDS, found))) for found in masks]
    printed = [line.partition(", packets:")[0] for line in dumped(dpctl, flows)]
    assert [format_match(key, mask) for key, mask in flows] == printed
