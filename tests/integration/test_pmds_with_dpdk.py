"""PMD threads of a real Open vSwitch with DPDK, which receive at full rate from net_null ports."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_delay.analysis.rounds import main_cause
from kernel_delay.analysis.verdict.thread_roles import spins_by_design
from kernel_delay.commands.check_process import process_findings
from kernel_delay.host.target import find_target
from kernel_delay.openvswitch import losses as losses_module
from kernel_delay.openvswitch.functions import FOLLOWED
from lab.binaries import Binaries
from lab.instance import Instance
from tests import ovs_with_dpdk
from tests.integration.test_packet_losses import losses_of, sample_while
from tests.integration.test_pmds import READ_S, STOPPED_S, counted, pmd_tid, stats_of
from tests.watching.watch import Watching, samples_in, watch_of
from tests.workload import HANGS_S, stop_for, wait_until

# How many packets the port has each time (drivers/net/null; NETDEV_MAX_BURST of Open vSwitch).
BURST = 32
MEASURED_S = 0.3


@pytest.fixture
def dpdk_ovs(
    root_user: None, ovs_binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Instance]:
    """An Open vSwitch whose PMD thread receives packets without end at the first of two ports."""
    # The thread may keep the main thread from the only CPU that is free.
    monkeypatch.setattr(losses_module, "ANSWERS_WITHIN_S", HANGS_S)
    with ovs_with_dpdk.running(ovs_binaries) as ovs:
        ovs.add_bridge("brdpdk")
        for port, device in (("p0", "net_null0"), ("p1", "net_null1,no-rx=1")):
            ovs.vsctl(
                *("add-port", "brdpdk", port, "--", "set", "Interface", port, "type=dpdk"),
                f"options:dpdk-devargs={device}",
            )
        wait_until(lambda: sum(counted(ovs, "Rx packets").values()) > 0, "packets")
        yield ovs


def of_the_only_pmd(ovs: Instance, name: str) -> int:
    (count,) = counted(ovs, name).values()
    return count


@pytest.mark.long
def test_counts_of_a_dpdk_port_are_open_vswitchs(dpdk_ovs: Instance) -> None:
    names = ("Iterations", "Rx packets", "Upcalls", "Lost upcalls")
    before = {name: of_the_only_pmd(dpdk_ovs, name) for name in names}
    within: list[int] = []

    def forward() -> None:
        within.append(of_the_only_pmd(dpdk_ovs, "Rx packets"))
        time.sleep(MEASURED_S)
        # The next packets find no flow. Until the revalidators have forgotten the one that was
        # deleted, none is made: an upcall of each packet is lost, as Open vSwitch calls it.
        dpdk_ovs.appctl("dpctl/del-flows")
        time.sleep(MEASURED_S)
        within.append(of_the_only_pmd(dpdk_ovs, "Rx packets"))

    sample = sample_while(dpdk_ovs, forward)
    stats = stats_of(sample)
    most = {name: of_the_only_pmd(dpdk_ovs, name) - before[name] for name in names}
    assert BURST <= within[1] - within[0] <= stats.packets <= most["Rx packets"]
    assert 0 < stats.busy_iterations <= stats.iterations <= most["Iterations"]
    assert 0 <= stats.upcalls <= most["Upcalls"]
    assert 0 <= stats.lost_upcalls <= most["Lost upcalls"]
    assert stats.upcalls + stats.lost_upcalls > 0
    assert [each.port for each in stats.rx_queues] == ["p0", "p1"]
    (thread,) = (each for each in sample.threads if each.pmd is not None)
    assert spins_by_design(sample, thread)
    (datapath,) = losses_of(sample).datapaths
    assert datapath.without_flow is not None
    (missed,) = (each for each in sample.verdict if each.rule == "flow_limit")
    assert missed.evidence["packets"] == datapath.without_flow > 0
    assert f"made no flow of {datapath.without_flow:,} packets" in missed.text
    # It uses all of its CPU by design: its own code is no finding.
    assert not any(each.rule == "user_work" for each in sample.verdict)


def is_recorded(pid: int, watch: Watching) -> bool:
    """Stop it, and return whether there is a record: that it left its CPU may be missed."""
    stop_for(pid, STOPPED_S)
    time.sleep(READ_S)
    return watch.recordings() != []


@pytest.mark.long
def test_dpdk_iteration_that_was_stopped_has_a_record(dpdk_ovs: Instance, tmp_path: Path) -> None:
    tid = pmd_tid(dpdk_ovs.pid)
    with watch_of(dpdk_ovs.pid, tmp_path / "records", "--no-stacks", "--pmd-gap", "50ms") as watch:
        wait_until(lambda: is_recorded(dpdk_ovs.pid, watch), "a record")
        watch.end()
    records = [each for path in watch.recordings() for each in samples_in(path)]
    stopped = next(each for each in records if each.verdict and each.verdict[0].rule == "stopped")
    assert stopped.verdict[0].tid == tid
    assert "was stopped" in main_cause(stopped)


def test_check_knows_open_vswitch_with_dpdk(dpdk_ovs: Instance) -> None:
    names = [each.name for each in process_findings(find_target(dpdk_ovs.pid))]
    assert names[3:] == list(FOLLOWED)
