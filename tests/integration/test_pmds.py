"""What the PMD threads of a real Open vSwitch did: equal to what ovs-appctl says of them."""

import re
import time
from collections.abc import Mapping

import pytest

from kernel_delay.model import PmdStats, Sample
from kernel_delay.openvswitch import losses as counters_module
from lab.binaries import Binaries
from lab.instance import Instance
from tests.integration.test_packet_losses import sample_while

PACKETS = 20
PACKET = (
    "in_port(1),eth(src=50:54:00:00:00:{:02x},dst=50:54:00:00:00:0a),eth_type(0x0800),"
    "ipv4(src=10.0.0.1,dst=10.0.0.2,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0)"
)


def counted(ovs: Instance, name: str) -> Mapping[int, int]:
    """A count of each PMD thread, by its core."""
    shown = ovs.appctl("dpif-netdev/pmd-perf-show", "-nh")
    threads = re.findall(r"core_id (\d+):\n(.*?)(?=\nTime|\Z)", shown, re.DOTALL)
    found = {int(core): re.search(rf"{name}: +(\d+)", text) for core, text in threads}
    return {core: int(count[1]) if count else 0 for core, count in found.items()}


def stats_of(sample: Sample) -> PmdStats:
    """Of the only PMD thread; a thread that it made to write the log has the same name."""
    (stats,) = (each.pmd for each in sample.threads if each.pmd is not None)
    return stats


def test_counts_of_a_pmd_thread_are_open_vswitchs(
    root_user: None, ovs_binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It spins on a CPU that the main thread may need for its answer.
    monkeypatch.setattr(counters_module, "ANSWERS_WITHIN_S", 120)
    with Instance(ovs_binaries, options=("--enable-dummy", "--dummy-numa", "0")) as ovs:
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-perf-metrics=true")
        ovs.add_bridge("brpmd")
        ovs.vsctl("add-port", "brpmd", "p1", "--", "set", "Interface", "p1", "type=dummy-pmd")
        before = counted(ovs, "Rx packets"), counted(ovs, "Upcalls")
        iterations: list[int] = []

        def receive() -> None:
            iterations.append(*counted(ovs, "Iterations").values())
            for number in range(PACKETS):
                ovs.appctl("netdev-dummy/receive", "p1", PACKET.format(number))
            deadline = time.monotonic() + 240
            while sum(counted(ovs, "Rx packets").values()) < PACKETS:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            iterations.append(*counted(ovs, "Iterations").values())

        stats = stats_of(sample_while(ovs.pid, receive))
        assert before == ({0: 0}, {0: 0})
        assert {0: stats.packets} == counted(ovs, "Rx packets") == {0: PACKETS}
        assert {0: stats.upcalls} == counted(ovs, "Upcalls")
        assert iterations[1] - iterations[0] <= stats.iterations
        assert stats.iterations <= counted(ovs, "Iterations")[0]
    assert 0 < stats.busy_iterations <= PACKETS
    assert stats.busy_share is None or 0 < stats.busy_share < 1
    assert stats.longest_ns
    (queue,) = stats.rx_queues
    assert (queue.port, queue.queue, queue.enabled) == ("p1", 0, True)
