"""Open vSwitch on the kernel's datapath, with USDT probes, under real upcalls and streams."""

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.binaries import Binaries
from lab.instance import Instance
from lab.traffic import Traffic
from tests import commands
from tests.integration import hosts, kernel_datapath
from tests.integration.upcall_samples import samples_while
from tests.needs import needed
from tests.workload import LASTS_S

NEW_FLOWS_PER_S = 200
SAMPLE_TIME_S = 1.0
WAIT_S = 400.0
CONNECTIONS = 4
# Of each connection: an emulated CPU must have time for the rest.
BITS_PER_S = "200K"
BYTES = 50_000


@pytest.fixture(scope="module")
def upcalls(root_user: None, usdt_binaries: Binaries) -> Iterator[Instance]:
    """A bridge in the kernel where nearly every packet is an upcall."""
    if not kernel_datapath.is_there():
        pytest.skip("the kernel module openvswitch is not loaded")
    with (
        Instance(usdt_binaries, datapath="system") as instance,
        Traffic(instance, rate=NEW_FLOWS_PER_S, seconds=LASTS_S),
    ):
        yield instance


@pytest.fixture(scope="module")
def sample(upcalls: Instance) -> Any:
    """What the command measured of it, as JSON; the flows are deleted before, so all miss."""
    upcalls.appctl("dpctl/del-flows")
    return measured(upcalls)


def measured(ovs: Instance) -> Any:
    """What the command says of it, as JSON."""
    options = ("--sample-time", SAMPLE_TIME_S, "--json", "-")
    done = commands.run("--pid", ovs.pid, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def threads_named(sample: Any, prefix: str) -> list[Any]:
    return [thread for thread in sample["threads"] if thread["name"].startswith(prefix)]


def test_the_packets_are_upcalls_of_the_kernel(upcalls: Instance) -> None:
    assert "system@ovs-system" in upcalls.appctl("dpctl/dump-dps")
    upcalls.appctl("dpctl/del-flows")
    deadline = time.monotonic() + WAIT_S
    while "udp(src=" not in upcalls.appctl("dpctl/dump-flows", "system@ovs-system"):
        assert time.monotonic() < deadline, "no flow came back"


def test_handlers_receive_and_send(sample: Any) -> None:
    handlers = threads_named(sample, "handler")
    calls = {call["name"]: call for handler in handlers for call in handler["syscalls"]}
    # One packet is received with recvmsg and, with its flow, sent back with sendmsg.
    assert calls["recvmsg"]["count"] > 0
    assert calls["sendmsg"]["count"] > 0


def test_soft_irqs_of_received_packets_are_charged_to_them(sample: Any) -> None:
    vectors = {irq["name"] for thread in sample["threads"] for irq in thread["soft_irqs"]}
    assert "net_rx" in vectors


def test_revalidators_dump_flows(sample: Any) -> None:
    revalidators = threads_named(sample, "revalidator")
    assert any(thread["syscalls"] for thread in revalidators)


def test_nothing_is_lost(sample: Any) -> None:
    assert sample["lost"]["dropped_records"] == 0


@pytest.fixture(scope="module")
def network(datapath: Instance) -> Iterator[hosts.Hosts]:
    """Two hosts on a bridge, where no one else sends."""
    needed("ping", "iperf3")
    with hosts.hosts(datapath) as network:
        yield network


@contextlib.contextmanager
def deleting_flows(ovs: Instance) -> Iterator[None]:
    """Delete the datapath's flows again and again meanwhile."""
    done = threading.Event()

    def delete() -> None:
        while not done.wait(0.1):
            ovs.appctl("dpctl/del-flows")

    deleting = threading.Thread(target=delete)
    deleting.start()
    try:
        yield
    finally:
        done.set()
        deleting.join()


def ports_of_flows(ovs: Instance, protocol: str) -> set[str]:
    """The source ports of the datapath's flows to iperf3's server."""
    flows = ovs.appctl("dpctl/dump-flows", "system@ovs-system")
    return set(re.findall(rf"{protocol}\(src=(\d+),dst=5201\)", flows))


def wait_for_flows(ovs: Instance, protocol: str) -> None:
    """Wait until each connection has a flow."""
    deadline = time.monotonic() + WAIT_S
    while len(ports_of_flows(ovs, protocol)) < CONNECTIONS:
        assert time.monotonic() < deadline, "not each connection has a flow"


def test_each_ping_is_answered_also_while_flows_are_deleted(
    datapath: Instance, network: hosts.Hosts
) -> None:
    assert network.ping(5) == 5
    with deleting_flows(datapath):
        assert network.ping(5) == 5


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_connections_are_flows_and_when_these_are_deleted_upcalls(
    protocol: str, datapath: Instance, network: hosts.Hosts
) -> None:
    # Short writes, so that they come all the time.
    options = ["--parallel", str(CONNECTIONS), "--bitrate", BITS_PER_S, "--length", "1000"]
    before = network.received_bytes()
    with network.iperf3(*options, *(["--udp"] if protocol == "udp" else [])):
        wait_for_flows(datapath, protocol)

        def forget_the_flows() -> None:
            datapath.appctl("dpctl/del-flows")
            wait_for_flows(datapath, protocol)

        (sample,) = samples_while(datapath, forget_the_flows)
    assert network.received_bytes() - before > BYTES
    # The kernel asked about a packet of each, and the answers are flows again.
    assert sample.upcalls is not None
    assert sum(upcalls.count for upcalls in sample.upcalls if not upcalls.error) >= CONNECTIONS
    handlers = [thread for thread in sample.threads if thread.name.startswith("handler")]
    calls = {call.name for thread in handlers for call in thread.syscalls if call.count}
    assert calls >= {"recvmsg", "sendmsg"}


def test_debians_own_open_vswitch_takes_the_misses_too(
    root_user: None, ovs_binaries: Binaries
) -> None:
    if not kernel_datapath.is_there():
        pytest.skip("the kernel module openvswitch is not loaded")
    with Instance(ovs_binaries, datapath="system") as instance, Traffic(instance, rate=200):
        before = flow_misses(instance)
        deadline = time.monotonic() + WAIT_S
        while flow_misses(instance) < before + 100:
            assert time.monotonic() < deadline, "packets are no upcalls"
        names = [path.read_text() for path in Path(f"/proc/{instance.pid}/task").glob("*/comm")]
        assert any(name.startswith("handler") for name in names)
        # Its datapath is in its own network namespace, not in the machine's.
        assert "ovs-system" in Path(f"/proc/{instance.pid}/net/dev").read_text()
        assert "ovs-system" not in Path("/proc/self/net/dev").read_text()


def flow_misses(ovs: Instance) -> int:
    """Packets that no flow in the datapath matched, hence upcalls."""
    match = re.search(r"missed:(\d+)", ovs.appctl("dpctl/show"))
    assert match is not None
    return int(match[1])
