"""Packets and messages that are lost while a capture runs: the verdict says which, and why.

What was lost is known exactly: by how much was sent, or by Open vSwitch's and the kernel's counts.
"""

import itertools
import os
import re
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel_delay.analysis.verdict import judge
from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import Finding, PacketLosses, Sample
from kernel_delay.openvswitch import losses as losses_module
from kernel_delay.openvswitch.losses import PACKET_SOCKETS, LossCounters
from kernel_delay.openvswitch.losses.datapaths import NETLINK_GENERIC
from lab.child import Child
from lab.instance import Instance
from tests.emulation import scaled
from tests.integration import kernel_datapath
from tests.integration.capture.in_process import before_others, interrupting, once_open
from tests.integration.capture.test_watch_metrics import Scrape, watching
from tests.integration.test_upcall_statistics import send_too_much
from tests.system_calls import syscall_number
from tests.workload import HANGS_S, LASTS_NS, stop, wait_until

PACKETS = 50
MANY_FLOWS = scaled(5_000)
CONNTRACK_MAX = Path("/proc/sys/net/netfilter/nf_conntrack_max")

# Subscribes to changes of links (RTMGRP_LINK), and does not read: "lo" goes up and down.
LAZY_READER = """
import socket, sys
events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
events.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
events.bind((0, 1))
print("ready", flush=True)
sys.stdin.readline()
"""

# Sends a packet so many times; since Linux 6.15 the sender is refused what is dropped.
DROPPED = """
import contextlib, socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind((sys.argv[1], 0))
    for _ in range(int(sys.argv[2])):
        with contextlib.suppress(OSError):
            sender.send(bytes.fromhex(sys.argv[3]))
"""


@pytest.fixture(params=["netdev", "system"])
def bridge(request: pytest.FixtureRequest, root_user: None) -> Iterator[Instance]:
    """A bridge with a port, in user space and in the kernel, that gets a test's packets alone."""
    if request.param == "system":
        if not kernel_datapath.is_there():
            pytest.skip("the kernel module openvswitch is not loaded")
        yield request.getfixturevalue("datapath")
        return
    ovs = request.getfixturevalue("ovs")
    with kernel_datapath.bridge(ovs):
        yield ovs


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open vSwitch's main thread may have to wait for a CPU before it answers."""
    monkeypatch.setattr(losses_module, "ANSWERS_WITHIN_S", HANGS_S)


def sample_while(process: Instance | Child, work: Callable[[], None]) -> Sample:
    """A judged Sample of a window that is open before the work, and over when that is."""

    def work_when_counted() -> None:
        if isinstance(process, Instance):
            # What it was asked before it has answered then.
            process.appctl("version")
        work()

    plan = WindowPlan(sample_time_ns=LASTS_NS)
    # What is read late at the window's end is not the window's.
    with before_others(), interrupting(work_when_counted) as worker:
        options = SessionOptions(packet_losses=True, on_open=once_open(worker))
        with Session(find_target(process.pid), plan, options) as session:
            (sample,) = session.samples()
    return judge(sample)


def losses_of(sample: Sample) -> PacketLosses:
    assert sample.packet_losses is not None
    # A kernel may lack packet_diag.
    unread = [each for each in sample.packet_losses.unread if PACKET_SOCKETS not in each]
    assert unread == []
    return sample.packet_losses


def found(sample: Sample, rule: str) -> Finding:
    (finding,) = (each for each in sample.verdict if each.rule == rule)
    return finding


def test_a_socket_that_overran_names_its_reader(measurable: None) -> None:
    reader = Child([sys.executable, "-c", LAZY_READER], own_network=True)
    try:
        reader.expect("ready", HANGS_S)
        command = "for _ in $(seq 10); do ip link set lo up; ip link set lo down; done"
        sample = sample_while(reader, lambda: reader.in_network(["sh", "-c", command]))
        (overrun,) = losses_of(sample).sockets
        assert overrun.protocol == "ROUTE"
        assert overrun.drops == _drops(reader.pid, overrun.inode) > 0
    finally:
        reader.stop()
    finding = found(sample, "netlink_overrun")
    assert finding.tid == reader.pid
    assert f"it lost {overrun.drops} messages" in finding.text
    assert not finding.remark


def _drops(pid: int, inode: int) -> int:
    """The kernel's count of all time: the socket has lost nothing before the window."""
    lines = Path(f"/proc/{pid}/net/netlink").read_text().splitlines()[1:]
    (drops,) = (int(line.split()[8]) for line in lines if int(line.split()[9]) == inode)
    return drops


def hits(ovs: Instance) -> int:
    return int(ovs.appctl("coverage/read-counter", "upcall_flow_limit_hit"))


def test_a_flow_limit_that_is_reached_is_found(bridge: Instance) -> None:
    before = hits(bridge)
    # At the end of a round Open vSwitch puts a limit of its own in the place of ours.
    bridge.appctl("revalidator/pause")
    try:
        bridge.appctl("upcall/set-flow-limit", "5")
        packets = itertools.cycle(kernel_datapath.packets(PACKETS, first=50_000))

        def send() -> None:
            """A packet at a time: a thread's counts are seen once it wakes up, a second later."""
            deadline = time.monotonic() + HANGS_S
            while hits(bridge) == before:
                assert time.monotonic() < deadline
                kernel_datapath.send(bridge, [next(packets) for _ in range(10)])

        sample = sample_while(bridge, send)
    finally:
        bridge.appctl("revalidator/resume")
    count = losses_of(sample).events["upcall_flow_limit_hit"]
    assert 0 < count <= hits(bridge) - before
    (datapath,) = losses_of(sample).datapaths
    (limit,) = losses_of(sample).flow_limits
    assert limit.limit == 5
    finding = found(sample, "flow_limit")
    most, missing = min(count, datapath.missed - datapath.lost), datapath.without_flow
    said = f"up to {most} packets got no flow" if missing is None else f"{missing} packets got no"
    assert (most if missing is None else missing) > 0
    assert f"{limit.datapath} reached its flow limit: {said}" in finding.text


def flow_limit(ovs: Instance) -> int:
    (limit,) = re.findall(r"\(limit (\d+)\)", ovs.appctl("upcall/show"))
    return int(limit)


def shrink_flow_limit(ovs: Instance) -> None:
    """A dump of flows takes over 1.3 s if the process stops amid it. It goes on with the next."""
    before = flow_limit(ovs)
    deadline = time.monotonic() + HANGS_S
    while (limit := flow_limit(ovs)) >= before:
        assert time.monotonic() < deadline
        before = limit
        for run_s in (0.001, 0.003, 0.009):
            stop(ovs.pid)
            time.sleep(1.5)
            os.kill(ovs.pid, signal.SIGCONT)
            time.sleep(run_s)


def test_a_flow_limit_that_shrank_is_a_remark(bridge: Instance) -> None:
    kernel_datapath.fill(bridge, MANY_FLOWS)
    sample = sample_while(bridge, lambda: shrink_flow_limit(bridge))
    (limit,) = losses_of(sample).flow_limits
    assert limit.limit_before is not None
    assert limit.limit < limit.limit_before
    finding = found(sample, "flow_limit")
    assert f"shrank from {limit.limit_before:,} to {limit.limit:,}" in finding.text
    assert finding.remark


def test_a_port_that_drops_is_named(bridge: Instance) -> None:
    # What is longer than the receiver's MTU is dropped there: net/core/dev.c:__dev_forward_skb().
    bridge.in_network(["ip", "link", "set", kernel_datapath.PORT, "mtu", "1000"])
    (packet,) = kernel_datapath.packets(1, first=51_000, size=1300)
    command = [sys.executable, "-c", DROPPED, kernel_datapath.SENDER, str(PACKETS), packet.hex()]
    try:
        sample = sample_while(bridge, lambda: bridge.in_network(command))
    finally:
        bridge.in_network(["ip", "link", "set", kernel_datapath.PORT, "mtu", "1500"])
    (datapath,) = losses_of(sample).datapaths
    (port,) = datapath.ports
    assert (port.name, port.rx_dropped) == (kernel_datapath.PORT, PACKETS)
    finding = found(sample, "port_drops")
    assert f"port {kernel_datapath.PORT} of {datapath.name} dropped 50 received" in finding.text


def test_metrics_have_limits_and_drops(bridge: Instance) -> None:
    (packet,) = kernel_datapath.packets(1, first=55_000, size=1300)
    command = [sys.executable, "-c", DROPPED, kernel_datapath.SENDER, str(PACKETS), packet.hex()]
    bridge.in_network(["ip", "link", "set", kernel_datapath.PORT, "mtu", "1000"])
    try:
        with watching(bridge.pid, "--no-stacks") as watch:
            before = watch.scrape()
            bridge.in_network(command)
            # What Open vSwitch had no time to answer is in the next.
            deadline = time.monotonic() + HANGS_S
            while (count := _port_drops(watch.scrape()) - _port_drops(before)) < PACKETS:
                assert time.monotonic() < deadline, count
            assert count == PACKETS
            assert watch.scrape().value("kernel_delay_flow_limit") > 0
    finally:
        bridge.in_network(["ip", "link", "set", kernel_datapath.PORT, "mtu", "1500"])


def _port_drops(scrape: Scrape) -> float:
    return scrape.value("kernel_delay_lost_packets_total", kind="port_receive")


def skip_without_named_sockets(datapath: Instance) -> None:
    """Skips where the kernel does not say which sockets take upcalls: 5.15, of those per CPU."""
    counters = LossCounters(datapath.pid, "ovs-vswitchd")
    try:
        (counted,) = counters.read().datapaths or ()
    finally:
        counters.close()
    if not any((*counted.portids, *(portid for port in counted.ports for portid in port.portids))):
        pytest.skip("this kernel's datapath does not name the sockets of its handlers")


def test_lost_upcalls_name_the_handler_that_was_stopped(datapath: Instance) -> None:
    before = kernel_datapath.lost(datapath)
    packets = kernel_datapath.packets(PACKETS, first=52_000)
    sample = sample_while(datapath, lambda: send_too_much(datapath, packets))
    lost = kernel_datapath.lost(datapath) - before
    (counted,) = losses_of(sample).datapaths
    assert counted.lost == lost > 0
    # The kernel counts them by port since Linux 6.4.
    assert [port.failed_upcalls for port in counted.ports] in ([], [lost])
    finding = found(sample, "upcalls_lost")
    assert f"{counted.name} lost {lost} upcalls" in finding.text
    skip_without_named_sockets(datapath)
    (thread,) = (each for each in sample.threads if each.tid == finding.tid)
    assert thread.name.startswith("handler")
    assert "was stopped for" in finding.text
    assert sum(overrun.drops for overrun in losses_of(sample).sockets) >= lost


def test_port_of_netdev_names_packets_without_room(ovs: Instance, measurable: None) -> None:
    """Each packet that was sent came to the datapath, or is one of the drops of the port."""
    count = 2_000
    with kernel_datapath.bridge(ovs):
        before = _looked_up(ovs)

        def flood() -> None:
            stop(ovs.pid)
            try:
                kernel_datapath.send(ovs, kernel_datapath.packets(count))
            finally:
                os.kill(ovs.pid, signal.SIGCONT)

        sample = sample_while(ovs, flood)
        if losses_of(sample).unread:
            pytest.skip("this kernel shows no packet sockets: CONFIG_PACKET_DIAG")
        (overrun,) = losses_of(sample).port_overruns
        wait_until(lambda: _looked_up(ovs) - before >= count - overrun.drops, "the others")
        assert _looked_up(ovs) - before == count - overrun.drops
    assert 0 < overrun.drops < count
    assert overrun.port == kernel_datapath.PORT
    finding = found(sample, "port_overrun")
    assert (
        f"port {kernel_datapath.PORT} lost {overrun.drops:,} packets that came in" in finding.text
    )
    assert finding.tid == ovs.pid


def _looked_up(ovs: Instance) -> int:
    """How many packets the datapath in user space has looked up."""
    lookups = re.search(r"hit:(\d+) missed:(\d+)", ovs.appctl("dpctl/show", "netdev@ovs-netdev"))
    assert lookups is not None
    return int(lookups[1]) + int(lookups[2])


def test_handlers_are_those_that_read_their_sockets(datapath: Instance) -> None:
    """An idle handler is in poll(2), whose descriptors include its socket, or an epoll of it."""
    skip_without_named_sockets(datapath)
    counters = LossCounters(datapath.pid, "ovs-vswitchd")
    try:
        reading = counters.read()
        (counted,) = reading.datapaths or ()
        assert reading.sockets is not None
        sockets = reading.sockets.values()
        inodes = {each.portid: each.inode for each in sockets if each.protocol == NETLINK_GENERIC}
        rows = [counted.portids, *(port.portids for port in counted.ports)]
        most = max(map(len, rows))
        wait_until(lambda: len(counters.handlers()) == most, "the handlers")
        handlers = counters.handlers()
        polled = [_polled_inodes(datapath.pid, tid) for tid in handlers]
    finally:
        counters.close()
    pairs = [(place, portid) for row in rows for place, portid in enumerate(row)]
    assert pairs
    for place, portid in pairs:
        assert inodes[portid] in polled[place], (handlers, rows)


def _polled_inodes(pid: int, tid: int) -> set[int]:
    """The inodes of sockets that a thread polls now, also by an epoll descriptor."""
    # One that was stopped goes on with restart_syscall(2), and has the same arguments.
    polls = [str(syscall_number(name)) for name in ("poll", "ppoll", "restart_syscall")]
    deadline, words = time.monotonic() + HANGS_S, [""]
    while words[0] not in polls:
        assert time.monotonic() < deadline, words
        time.sleep(0.05)
        words = Path(f"/proc/{tid}/syscall").read_text().split()
    address, count = int(words[1], 16), int(words[2], 16)
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        polled = memory.read(8 * count)
    fds = [fd for fd, _, _ in struct.iter_unpack("=ihh", polled)]
    for fd in tuple(fds):
        info = Path(f"/proc/{pid}/fdinfo/{fd}").read_text()
        fds += [int(each) for each in re.findall(r"^tfd: +(\d+)", info, re.MULTILINE)]
    found = (re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}")) for fd in fds)
    return {int(each[1]) for each in found if each}


@pytest.fixture
def tracking(datapath: Instance) -> Iterator[Instance]:
    """Each packet is a connection, of which there is room for few; the limit is the machine's."""
    if not CONNTRACK_MAX.exists():
        pytest.skip("this kernel has no conntrack")
    features = datapath.appctl("dpif/show-dp-features", kernel_datapath.BRIDGE)
    if "CT zone: Yes" not in features:
        pytest.skip("this kernel's conntrack has no zones: CONFIG_NF_CONNTRACK_ZONES")
    datapath.ofctl(
        "add-flow", kernel_datapath.BRIDGE, "priority=40000,udp,actions=ct(commit,table=1)"
    )
    datapath.ofctl("add-flow", kernel_datapath.BRIDGE, "table=1,actions=LOCAL")
    before = CONNTRACK_MAX.read_text()
    CONNTRACK_MAX.write_text("10")
    try:
        yield datapath
    finally:
        CONNTRACK_MAX.write_text(before)
        datapath.ofctl("--strict", "del-flows", kernel_datapath.BRIDGE, "priority=40000,udp")


def test_a_full_conntrack_table_is_found(tracking: Instance) -> None:
    packets = kernel_datapath.packets(PACKETS, first=53_000)
    sample = sample_while(tracking, lambda: kernel_datapath.send(tracking, packets))
    conntrack = losses_of(sample).conntrack
    assert conntrack is not None
    assert conntrack.limit == 10
    # Each of the others was dropped, or had an older one deleted.
    assert conntrack.dropped + conntrack.early_dropped >= PACKETS - 10
    finding = found(sample, "conntrack_full")
    assert "conntrack's table is full" in finding.text
    assert "nf_conntrack_max" in finding.text


def test_a_stopped_process_is_not_asked(ovs: Instance) -> None:
    stop(ovs.pid)
    try:
        wait_until(lambda: ") T " in Path(f"/proc/{ovs.pid}/stat").read_text(), "the stop")
        counters = LossCounters(ovs.pid, "ovs-vswitchd")
        before = counters.read()
        losses = counters.between(before, counters.read())
        counters.close()
    finally:
        os.kill(ovs.pid, signal.SIGCONT)
    assert losses.unread == ("counters of ovs-vswitchd: it is stopped",)
    assert losses.flow_limits == ()


def test_a_quiet_bridge_loses_nothing(bridge: Instance) -> None:
    packets = kernel_datapath.packets(PACKETS, first=54_000)
    sample = sample_while(bridge, lambda: kernel_datapath.send(bridge, packets))
    losses = losses_of(sample)
    assert [each.lost for each in losses.datapaths] == [0]
    assert losses.sockets == ()
    assert losses.events == {}
    loss_rules = {"upcalls_lost", "netlink_overrun", "conntrack_full", "flow_limit", "port_drops"}
    assert not loss_rules & {each.rule for each in sample.verdict}
