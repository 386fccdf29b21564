"""`kernel-delay flows`: what a real Open vSwitch makes of flows, and why."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from kernel_delay.monitors.flows.events import FlowChange
from kernel_delay.openvswitch.detrace import rules_in
from lab.binaries import Binaries
from lab.instance import Instance
from tests import commands
from tests.integration import kernel_datapath
from tests.integration.json_follower import HANGS_S, JsonFollower
from tests.integration.kernel_datapath import ALWAYS_CHECKED, BRIDGE, NO_TIME, packets, send

PACKETS = 20
DROPPED = "priority=50000,udp"


class Line(Struct):
    """Of a line of JSON, what the tests look at."""

    change: FlowChange
    reason: str | None
    ufid: str
    match: str
    came_back: bool
    in_sweep: bool
    datapath: str
    layer: str
    n_packets: int
    n_bytes: int
    time_ns: int
    created_ns: int
    rules: tuple[str, ...] = ()


def following(ovs: Instance, folder: Path, *options: str) -> JsonFollower[Line]:
    return JsonFollower(folder, Line, "flows", "-p", ovs.pid, *options)


def dumped(ovs: Instance) -> dict[str, str]:
    """The matches of the datapath's flows by UFID, each as Open vSwitch itself writes it."""
    found = {}
    for line in ovs.appctl("dpctl/dump-flows", "-m").splitlines():
        if match := re.match(r"ufid:([0-9a-f-]+), (.*), packets:", line):
            found[match[1]] = match[2]
    return found


def short_matches(ovs: Instance) -> list[str]:
    """The same without what they wildcard, in no order."""
    lines = ovs.appctl("dpctl/dump-flows").splitlines()
    return sorted(line.partition(", packets:")[0] for line in lines if line.startswith("recirc_id"))


def of(lines: list[Line], change: FlowChange) -> list[Line]:
    return [line for line in lines if line.change == change]


def until_there(ovs: Instance, count: int) -> None:
    deadline = time.monotonic() + HANGS_S
    while len(dumped(ovs)) != count:
        assert time.monotonic() < deadline, dumped(ovs)
        time.sleep(0.05)


@pytest.fixture(scope="module")
def ovs(root_user: None, usdt_binaries: Binaries) -> Iterator[Instance]:
    """A bridge that gets the packets that a test sends, each a flow of its own that is kept."""
    with Instance(usdt_binaries) as ovs, kernel_datapath.bridge(ovs):
        ovs.vsctl("set", "Open_vSwitch", ".", NO_TIME, ALWAYS_CHECKED)
        yield ovs


@pytest.fixture(autouse=True)
def no_flows(request: pytest.FixtureRequest) -> None:
    """Each test begins without any."""
    if "ovs" in request.fixturenames:
        found: Instance = request.getfixturevalue("ovs")
        found.appctl("revalidator/purge")
        until_there(found, 0)


def test_flows_are_reported_as_open_vswitch_tells_them(ovs: Instance, tmp_path: Path) -> None:
    send(ovs, packets(3, first=1000))
    until_there(ovs, 3)
    with following(ovs, tmp_path) as follower:
        start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        send(ovs, packets(PACKETS))
        made = follower.until(lambda lines: len(lines) >= PACKETS)
        there, written = dumped(ovs), short_matches(ovs)
    assert {line.change for line in made} == {"insert"}
    assert len(made) == PACKETS
    # Those from before are none of them.
    assert len(there) == PACKETS + 3
    assert {line.ufid for line in made} <= there.keys()
    assert {line.match for line in made} <= set(written)
    for line in made:
        ports = re.findall(r"udp\(src=\d+,dst=\d+\)", line.match)
        assert ports == re.findall(r"udp\(src=\d+,dst=\d+\)", there[line.ufid])
        assert line.datapath == "netdev@ovs-netdev"
        assert line.created_ns >= start_ns - 1_000_000


def without_counts(rules: Iterable[str]) -> list[str]:
    return [
        re.sub(r"(n_packets|n_bytes|duration|idle_age|hard_age)=[^, ]+", "", rule) for rule in rules
    ]


def test_modified_flows_have_the_rules_that_detrace_says(ovs: Instance, tmp_path: Path) -> None:
    with following(ovs, tmp_path, "--rules") as follower:
        send(ovs, packets(3))
        follower.until(lambda lines: len(of(lines, "insert")) >= 3)
        ovs.ofctl("add-flow", BRIDGE, f"{DROPPED},actions=drop")
        made = of(follower.until(lambda lines: len(of(lines, "modify")) >= 3), "modify")
        answers = [ovs.appctl("ofproto/detrace", f"ufid:{line.ufid}") for line in made]
        ovs.ofctl("--strict", "del-flows", BRIDGE, DROPPED)
    for line, answer in zip(made, answers, strict=True):
        assert "actions=drop" in line.rules[-1]
        assert without_counts(line.rules) == without_counts(rules_in(answer))


def test_why_flows_are_deleted_and_which_come_back(ovs: Instance, tmp_path: Path) -> None:
    with following(ovs, tmp_path) as follower:
        send(ovs, packets(PACKETS))
        follower.until(lambda lines: len(of(lines, "insert")) == PACKETS)
        flows = dumped(ovs).keys()

        ovs.appctl("revalidator/purge")
        purged = follower.until(lambda lines: len(of(lines, "delete")) == PACKETS, PACKETS)
        assert {line.reason for line in purged} == {"purge"}
        assert {line.ufid for line in purged} == flows
        assert dumped(ovs) == {}

        so_far = len(follower.seen())
        send(ovs, packets(PACKETS))
        again = follower.until(lambda lines: len(of(lines, "insert")) == PACKETS, so_far)
        assert {line.ufid for line in again} == flows
        # Within a second of their deletion, as far as this machine got to it.
        deleted_ns = {line.ufid: line.time_ns for line in purged}
        for line in again:
            assert line.came_back == (line.created_ns - deleted_ns[line.ufid] <= 10**9)

        so_far = len(follower.seen())
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")
        idle = follower.until(lambda lines: len(of(lines, "delete")) == PACKETS, so_far)
        ovs.vsctl("set", "Open_vSwitch", ".", NO_TIME)
        assert {line.reason for line in idle} == {"flow_idle"}
        assert {line.ufid for line in idle} == flows
        until_there(ovs, 0)


def test_a_change_of_openflow_modifies_flows_and_deletes_others(
    ovs: Instance, tmp_path: Path
) -> None:
    with following(ovs, tmp_path) as follower:
        send(ovs, packets(PACKETS))
        follower.until(lambda lines: len(of(lines, "insert")) == PACKETS)
        flows = dumped(ovs).keys()
        ovs.ofctl("add-flow", BRIDGE, f"{DROPPED},actions=drop")
        changed = follower.until(lambda lines: len(lines) >= PACKETS, PACKETS)
        assert {line.change for line in changed} == {"modify"}
        assert {line.ufid for line in changed} == flows
        # Of all UDP one flow is enough by now; with the old rules that is too wide.
        ovs.appctl("revalidator/purge")
        until_there(ovs, 0)
        so_far = len(follower.until(lambda lines: len(of(lines, "delete")) == PACKETS))
        send(ovs, packets(PACKETS))
        follower.until(lambda lines: of(lines, "insert"), so_far)
        ovs.ofctl("--strict", "del-flows", BRIDGE, DROPPED)
        (wide, *_) = of(follower.until(lambda lines: of(lines, "delete"), so_far), "delete")
    assert wide.reason == "flow_wildcarded"
    assert "udp(" not in wide.match


def test_more_than_twice_the_limit_are_all_deleted(ovs: Instance, tmp_path: Path) -> None:
    with following(ovs, tmp_path) as follower:
        send(ovs, packets(PACKETS))
        follower.until(lambda lines: len(of(lines, "insert")) == PACKETS)
        deadline = time.monotonic() + HANGS_S
        # At the end of a round Open vSwitch puts a limit of its own in the place of ours.
        while not of(follower.seen(), "delete"):
            assert time.monotonic() < deadline
            ovs.appctl("upcall/set-flow-limit", "5")
            time.sleep(0.1)
        ovs.appctl("upcall/set-flow-limit", "200000")
        (first, *_) = of(follower.seen(), "delete")
    assert first.reason == "flow_limit"


def test_each_result_where_it_is_asked_for(ovs: Instance, tmp_path: Path) -> None:
    send(ovs, packets(1))
    until_there(ovs, 1)
    # The packet that made it is not counted by all datapaths.
    send(ovs, packets(1))
    (ufid,) = dumped(ovs)

    def has_all(lines: list[Line]) -> bool:
        counted = re.search(r" packets:(\d+), bytes:(\d+)", ovs.appctl("dpctl/dump-flows", "-m"))
        assert counted is not None
        last = [(str(line.n_packets), str(line.n_bytes)) for line in lines[-1:]]
        return len(lines) >= 3 and last == [counted.groups()] and counted[1] != "0"

    with following(ovs, tmp_path, "--all-results", "--ufid", ufid[:8]) as follower:
        found = follower.until(has_all)
    assert {(line.change, line.ufid) for line in found} == {("keep", ufid)}


def test_a_report_from_a_recording_is_the_same(ovs: Instance, tmp_path: Path) -> None:
    path = tmp_path / "flows.kdr"
    with following(ovs, tmp_path, "-o", str(path)) as follower:
        send(ovs, packets(PACKETS))
        follower.until(lambda lines: len(of(lines, "insert")) == PACKETS)
        ovs.appctl("revalidator/purge")
        follower.until(lambda lines: len(of(lines, "delete")) == PACKETS)
    live = (tmp_path / "stdout").read_text()
    reported = commands.run("report", path, "--json")
    assert (reported.returncode, reported.stderr) == (0, "")
    assert reported.stdout == live
    text = commands.run("report", path)
    assert (
        f"{PACKETS} flows made, {PACKETS} deleted, 0 modified; 0 were there before" in text.stdout
    )
    assert max(map(len, text.stdout.splitlines())) <= 80
    some = commands.run("report", path, "-q", "-l", "udp(src=1024/0xfffc),eth_type(0x800)")
    assert "4 flows made, 4 deleted" in some.stdout
    assert f"{2 * PACKETS - 8} events of other flows" in some.stdout
    none = commands.run("report", path, "-q", "--reason", "flow_idle")
    assert "0 flows made, 0 deleted" in none.stdout
    wrong = commands.run("report", path, "-l", "udp(port=5)")
    assert wrong.returncode == 64  # EX_USAGE
    assert "udp has the parts src, dst" in wrong.stderr
    assert commands.run("report", path, "--reason", "sloth").returncode == 64


# What flows of a bridge rarely match.
TUNNELS = (
    "tun_id=0x1/0xff,src=10.0.0.1/255.255.255.0,dst=10.1.2.3,tos=0x10/0xf0,ttl=64/0x40,"
    "tp_src=1/0x1,tp_dst=4789,flags(-df+csum)",
    "tun_id=0x0,src=10.0.0.1,dst=10.1.2.3,ttl=0/0,flags(key)",
    "tun_id=0x7,ipv6_src=fd00::1/ffff::,ipv6_dst=fd00::2,tos=0/0,ttl=64,flags(+df-csum+key)",
    "tun_id=0x7,src=1.1.1.1,dst=2.2.2.2,ttl=64,geneve({class=0x102,type=0x80,len=4,0x30003/0xff}"
    "{class=0xffff,type=0,len=8,0x1122334455667788}),flags(key)",
    "tun_id=0x7,src=1.1.1.1,dst=2.2.2.2,ttl=64,vxlan(gbp(id=5/0xff,flags=0x8)),flags(key)",
    "tun_id=0x7,src=1.1.1.1,dst=2.2.2.2,ttl=64,erspan(ver=1,idx=0x12),flags(key)",
    "tun_id=0x7,src=1.1.1.1,dst=2.2.2.2,ttl=64,gtpu(flags=0x30/0xf0,msgtype=255),flags(key)",
)
LABELS = (
    "label=100/0xff,tc=3/7,ttl=64/0x0,bos=1/1",
    "label=100,tc=3,ttl=64,bos=1",
    "label=100,tc=3,ttl=64,bos=0,label=200/0xfff00,tc=0/0,ttl=0/0,bos=1/1",
)
# Of IPv6 Open vSwitch writes src_port, and reads tp_src.
CONNECTION = "ct_tuple4(src=10.0.0.0/255.0.0.0,proto=6,tp_src=80/0xfff0)"
CONNECTION6 = "ct_tuple6(src=fd00::5/ffff::,proto=17,tp_src=80/0xfff0)"
IPV4, IPV6 = "eth_type(0x0800),ipv4(frag=no)", "eth_type(0x86dd),ipv6(frag=no)"


def rare_flows() -> list[str]:
    """A flow of each, on a port of its own that is not there."""
    flows = [
        *(f"tunnel({tunnel}),in_port(PORT),eth(),{IPV4}" for tunnel in TUNNELS),
        *(f"in_port(PORT),eth(),eth_type(0x8847),mpls({labels})" for labels in LABELS),
        f"in_port(PORT),ct_state(+trk),{CONNECTION},eth(),{IPV4}",
        f"in_port(PORT),ct_state(+trk),{CONNECTION6},eth(),{IPV6}",
    ]
    return [
        "recirc_id(0)," + flow.replace("PORT", str(port)) for port, flow in enumerate(flows, 1000)
    ]


def test_tunnels_labels_and_connections_are_formatted_as_in_ovs(
    ovs: Instance, tmp_path: Path
) -> None:
    # Until it looks at them the flows stay, though their ports are none.
    ovs.appctl("revalidator/pause")
    flows = rare_flows()
    for flow in flows:
        ovs.appctl("dpctl/add-flow", flow, "drop")
    written = short_matches(ovs)
    with following(ovs, tmp_path, "-f", "1024") as follower:
        ovs.appctl("revalidator/resume")
        made = follower.until(lambda lines: len(of(lines, "delete")) >= len(flows))
    matches = {line.match for line in made}
    assert len(written) == len(flows)
    assert matches == set(written)


def test_insertions_and_deletions_are_those_of_the_kernels_datapath(
    datapath: Instance, tmp_path: Path
) -> None:
    datapath.vsctl("set", "Open_vSwitch", ".", NO_TIME)
    datapath.appctl("revalidator/purge")
    until_there(datapath, 0)
    try:
        with following(datapath, tmp_path) as follower:
            send(datapath, packets(PACKETS))
            made = follower.until(lambda lines: len(of(lines, "insert")) == PACKETS)
            there, written = dumped(datapath), short_matches(datapath)
            datapath.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")
            gone = follower.until(lambda lines: len(of(lines, "delete")) == PACKETS)
            assert dumped(datapath) == {}
    finally:
        datapath.vsctl("remove", "Open_vSwitch", ".", "other_config", "max-idle")
    assert {line.ufid for line in made} == there.keys()
    assert sorted(line.match for line in made) == written
    # A sweep also meets flows that no dump had yet, and only a dump says who holds a flow
    # (ofproto/ofproto-dpif-upcall.c: revalidate(), revalidator_sweep__(), 3.5).
    assert {line.layer for line in made if not line.in_sweep} <= {"ovs"}
    assert {line.layer for line in of(gone, "delete")} == {"ovs"}
    assert {(line.ufid, line.reason) for line in of(gone, "delete")} == {
        (ufid, "flow_idle") for ufid in there
    }


def idle(ovs: Instance) -> None:
    ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")


def hard_timeout(ovs: Instance) -> None:
    """What other_actions() added has a second left."""
    ovs.ofctl("add-flow", BRIDGE, f"{DROPPED},hard_timeout=1,actions=drop")


def deleted_rules(ovs: Instance) -> None:
    ovs.ofctl("del-flows", BRIDGE)


def other_actions(ovs: Instance) -> None:
    ovs.ofctl("add-flow", BRIDGE, f"{DROPPED},actions=drop")


def small_limit(ovs: Instance) -> None:
    # At the end of a round Open vSwitch puts a limit of its own in the place of ours.
    ovs.appctl("upcall/set-flow-limit", "5")


MANY = 300


@pytest.mark.parametrize(
    ("causes", "change", "reason"),
    [
        ((idle,), "delete", "flow_idle"),
        ((small_limit,), "delete", "flow_limit"),
        ((deleted_rules,), "modify", None),
        ((other_actions, hard_timeout), "modify", None),
    ],
    ids=("idle", "flow limit", "del-flows", "hard timeout"),
)
def test_what_changes_is_what_the_kernels_dump_says(
    datapath: Instance,
    tmp_path: Path,
    causes: tuple[Callable[[Instance], None], ...],
    change: FlowChange,
    reason: str | None,
) -> None:
    """OpenFlow's own changes leave the flows of a datapath there, with other actions."""
    datapath.vsctl("set", "Open_vSwitch", ".", NO_TIME, ALWAYS_CHECKED)
    datapath.appctl("revalidator/purge")
    until_there(datapath, 0)
    try:
        with following(datapath, tmp_path) as follower:
            send(datapath, packets(MANY))
            until_there(datapath, MANY)
            before = follower.until(lambda lines: len(of(lines, "insert")) >= MANY)
            there = dumped(datapath).keys()
            assert {line.ufid for line in before} == there
            for number, cause in enumerate(causes, start=1):
                cause(datapath)
                deadline = time.monotonic() + HANGS_S
                while len(of(lines := follower.seen(), change)) < number * MANY:
                    changes = Counter((line.change, line.reason) for line in lines)
                    assert time.monotonic() < deadline, (changes, datapath.appctl("upcall/show"))
                    if cause is small_limit:
                        cause(datapath)
                    time.sleep(0.1)
            seen = follower.seen()[len(before) :]
            left = dumped(datapath).keys()
    finally:
        for option in ("max-idle", "min-revalidate-pps"):
            datapath.vsctl("remove", "Open_vSwitch", ".", "other_config", option)
        datapath.appctl("upcall/set-flow-limit", "200000")
        datapath.ofctl("del-flows", BRIDGE)
        datapath.ofctl("add-flow", BRIDGE, kernel_datapath.EVERY_FLOW_ANEW)
    changed = of(seen, change)
    assert Counter(line.ufid for line in changed) == dict.fromkeys(there, len(causes))
    assert {line.reason for line in changed} == {reason}
    assert there - {line.ufid for line in of(seen, "delete")} == left


def test_flows_without_usdt_probes_names_the_build_it_needs(
    root_user: None, ovs_binaries: Binaries
) -> None:
    with Instance(ovs_binaries) as bare:
        done = commands.run("flows", "-p", bare.pid)
    assert done.returncode == 66  # EX_NOINPUT
    assert done.stderr.count("\n") == 1
    assert "it takes an OVS built with --enable-usdt-probes" in done.stderr
    assert "from 3.4 on" in done.stderr
