"""Open vSwitch on the kernel's datapath, with USDT probes, under real upcalls."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel_delay.ovs.binaries import Binaries
from kernel_delay.ovs.instance import Instance
from kernel_delay.ovs.traffic import Traffic

NEW_FLOWS_PER_S = 200
SAMPLE_TIME_S = 2.0
WAIT_S = 30.0


@pytest.fixture(scope="module")
def upcalls(root_user: None, usdt_binaries: Binaries) -> Iterator[Instance]:
    """A bridge in the kernel where nearly every packet is an upcall."""
    if not Path("/sys/module/openvswitch").exists():
        pytest.skip("the kernel module openvswitch is not loaded")
    with (
        Instance(usdt_binaries, datapath="system") as instance,
        Traffic(instance, rate=NEW_FLOWS_PER_S, seconds=300.0),
    ):
        yield instance


@pytest.fixture(scope="module")
def sample(upcalls: Instance) -> Any:
    """What the command measured of it, as JSON; the flows are deleted before, so all miss."""
    upcalls.appctl("dpctl/del-flows")
    command = [sys.executable, "-m", "kernel_delay", "--pid", str(upcalls.pid), "--json", "-"]
    done = subprocess.run(
        [*command, "--sample-time", str(SAMPLE_TIME_S)], capture_output=True, text=True
    )
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
    assert sample["lost"]["map_entries"] == 0
