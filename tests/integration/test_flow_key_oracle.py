"""Our text of a flow key against that of Open vSwitch's own ovs-dpctl."""

import itertools
import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel_delay.openvswitch.flow_key import format_key
from lab.binaries import Binaries
from tests.integration import flow_keys
from tests.integration.datapath_double import (
    DATAPATH,
    DatapathDouble,
    OvsDpctl,
    attribute,
    ovs_dpctl,
)
from tests.needs import needed

STATISTICS = re.compile(r", packets:\d+, bytes:\d+, used:.*$")
SERIAL = itertools.count()


@pytest.fixture(scope="session")
def dpctl(ovs_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> OvsDpctl:
    """ovs-dpctl, with genl_redirect.c, built."""
    target = tmp_path_factory.mktemp("preload") / "genl_redirect.so"
    source = Path(__file__).with_name("genl_redirect.c")
    command = [needed("cc"), "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, target, source, "-ldl"], check=True)
    # In the same folder of the package.
    return OvsDpctl(ovs_binaries.ovs_appctl.with_name("ovs-dpctl"), target)


def dumped(dpctl: OvsDpctl, keys: list[bytes], *options: str) -> list[str]:
    """What `ovs-dpctl dump-flows` prints for flows of these keys."""
    socket = dpctl.preload.with_name(f"genl{next(SERIAL)}")
    double = DatapathDouble(socket, [(key, b"") for key in keys])
    try:
        lines = ovs_dpctl(double, dpctl, "dump-flows", *options, f"system@{DATAPATH}")
    finally:
        double.close()
    return [STATISTICS.sub("", line) for line in lines]


@pytest.mark.long
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(keys=st.lists(flow_keys.keys, min_size=1, max_size=20))
def test_any_key_reads_as_ovs_dpctl_prints_it(dpctl: OvsDpctl, keys: list[bytes]) -> None:
    assert [format_key(key) for key in keys] == dumped(dpctl, keys, "-m")


@pytest.mark.parametrize("name", flow_keys.FIXED)
@settings(deadline=None, max_examples=4)
@given(data=st.data())
def test_each_attribute_reads_as_ovs_dpctl_prints_it(
    dpctl: OvsDpctl, name: str, data: st.DataObject
) -> None:
    field = flow_keys.field(name, flow_keys.FIXED[name])
    keys = data.draw(st.lists(field, min_size=10, max_size=40))
    assert [format_key(key) for key in keys] == dumped(dpctl, keys, "-m")


def test_ct_state_reads_as_the_bits_ovs_dpctl_names(dpctl: OvsDpctl) -> None:
    states = [*range(256), 0x100, 0x121, 0xFFFFFFFF, 0x80000000]
    kind = flow_keys.number("CT_STATE")
    keys = [attribute(kind, struct.pack("=I", state)) for state in states]
    assert [format_key(key) for key in keys] == dumped(dpctl, keys)


FLOWS = (
    "recirc_id(0),dp_hash(0),skb_priority(0),in_port(2),skb_mark(0),ct_state(0),ct_zone(0),"
    "ct_mark(0),ct_label(0),eth(src=00:00:01:00:00:00,dst=00:00:02:00:00:00),eth_type(0x0800),"
    "ipv4(src=1.0.0.0,dst=2.0.0.0,proto=17,tos=0,ttl=64,frag=no),udp(src=53,dst=53)",
    "recirc_id(0x2),skb_priority(0),tunnel(tun_id=0x7f10354,src=10.10.10.10,dst=20.20.20.20,"
    "tos=0x8,ttl=64,geneve({class=0x102,type=0x80,len=4,0xa}{class=0xffff,type=0,len=0}),"
    "flags(df|csum|key)),in_port(1),eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),"
    "eth_type(0x86dd),ipv6(src=2001:db8::1,dst=ff02::1:ff00:2,label=0xf,proto=58,tclass=0x70,"
    "hlimit=255,frag=no),icmpv6(type=135,code=0),nd(target=2001:db8::2,sll=00:05:06:07:08:09,"
    "tll=00:00:00:00:00:00)",
    "in_port(1),eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),eth_type(0x88a8),"
    "vlan(vid=100,pcp=7),encap(eth_type(0x8100),vlan(vid=99,pcp=0),encap(eth_type(0x0800),"
    "ipv4(src=35.8.2.41,dst=172.16.0.20,proto=6,tos=0,ttl=128,frag=later)))",
    "in_port(1),eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),eth_type(0x0806),"
    "arp(sip=1.2.3.4,tip=5.6.7.8,op=1,sha=00:0f:10:11:12:13,tha=00:14:15:16:17:18)",
    "in_port(1),eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),eth_type(0x8847),"
    "mpls(label=100,tc=3,ttl=64,bos=0,label=16,tc=0,ttl=63,bos=1)",
)


@pytest.mark.parametrize("flow", FLOWS)
def test_flow_bytes_from_ovs_dpctl_format_as_that_flow(dpctl: OvsDpctl, flow: str) -> None:
    double = DatapathDouble(dpctl.preload.with_name(f"genl{next(SERIAL)}"), [])
    try:
        ovs_dpctl(double, dpctl, "add-flow", f"system@{DATAPATH}", flow, "drop")
    finally:
        double.close()
    assert [format_key(key) for key in double.added] == [flow]
