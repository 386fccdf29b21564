"""`kernel-delay revalidator`, on the revalidators of a real Open vSwitch."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from kernel_delay.monitors.revalidator.events import RevalidatorRound
from kernel_delay.recording.reader import open_recording
from lab.binaries import Binaries
from lab.instance import Instance
from tests import commands
from tests.integration import kernel_datapath
from tests.integration.capture.scheduler_clock import most_stolen_ns, stolen_ns
from tests.integration.json_follower import HANGS_S, JsonFollower
from tests.integration.kernel_datapath import ALWAYS_CHECKED, NO_TIME
from tests.workload import sleeping

ANOTHER_FLOW = "priority=1,in_port=9,actions=drop"
PACKETS = 100


class UpcallShow(NamedTuple):
    """What `ovs-appctl upcall/show` says of the one datapath."""

    current: int
    average: int
    maximum: int
    limit: int
    keys: int


def upcall_show(ovs: Instance) -> UpcallShow:
    shown = ovs.appctl("upcall/show")
    numbers = re.search(r"current (\d+)\) \(avg (\d+)\) \(max (\d+)\) \(limit (\d+)\)", shown)
    assert numbers is not None
    keys = sum(map(int, re.findall(r"\(keys (\d+)\)", shown)))
    current, average, maximum, limit = map(int, numbers.groups())
    return UpcallShow(current, average, maximum, limit, keys)


def following(ovs: Instance, folder: Path) -> JsonFollower[RevalidatorRound]:
    return JsonFollower(folder, RevalidatorRound, "revalidator", "-p", ovs.pid)


@pytest.fixture(scope="module")
def ovs(root_user: None, usdt_binaries: Binaries) -> Iterator[Instance]:
    """With flows that come no more, and are kept."""
    with Instance(usdt_binaries) as ovs, kernel_datapath.bridge(ovs):
        ovs.vsctl("set", "Open_vSwitch", ".", NO_TIME, ALWAYS_CHECKED)
        kernel_datapath.send(ovs, kernel_datapath.packets(PACKETS))
        deadline = time.monotonic() + HANGS_S
        while upcall_show(ovs).keys < PACKETS:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield ovs


def settled(ovs: Instance, follower: JsonFollower[RevalidatorRound]) -> UpcallShow:
    """What upcall/show says when three rounds in a row had as many flows."""
    follower.until(lambda rounds: len({each.n_flows for each in rounds[-3:]}) == 1, begun=2)
    return upcall_show(ovs)


def test_its_figures_are_those_of_upcall_show(ovs: Instance, tmp_path: Path) -> None:
    with following(ovs, tmp_path) as follower:
        before = settled(ovs, follower)
        so_far = len(follower.seen())
        first, second, *_ = follower.until(lambda rounds: len(rounds) >= 2, begun=so_far)
        after = upcall_show(ovs)
    assert before.keys >= PACKETS
    for found in (first, second):
        state = found.state
        assert state is not None
        assert found.n_flows == before.current == after.current
        assert state.max_n_flows == before.maximum
        assert before.limit <= state.flow_limit <= after.limit
        assert before.average <= state.avg_n_flows <= after.average
        # Each was looked at twice, in the dump and in the sweep, and is still there.
        assert found.dumped is not None
        assert found.swept is not None
        assert found.dumped.kept == found.swept.kept == before.keys
        assert found.dumped.total == found.swept.total == before.keys
        assert found.deleted == 0
    assert second.previous_stop_ns == first.stop_ns
    assert second.poll_wait_ms == 500  # max-revalidator of vswitchd/vswitch.xml, Open vSwitch 3.5
    assert first.state is not None
    assert second.state is not None
    assert second.state.flow_limit_before == first.state.flow_limit
    assert second.state.avg_n_flows == (first.state.avg_n_flows + second.n_flows) // 2


def test_a_change_of_openflow_has_all_flows_revalidated(ovs: Instance, tmp_path: Path) -> None:
    with following(ovs, tmp_path) as follower:
        flows = settled(ovs, follower).keys
        so_far = len(follower.seen())
        ovs.ofctl("add-flow", kernel_datapath.BRIDGE, ANOTHER_FLOW)
        # The first may be a part: of a dump that had begun before.
        found = follower.until(
            lambda rounds: any(each.revalidated == flows for each in rounds), so_far
        )
        ovs.ofctl("--strict", "del-flows", kernel_datapath.BRIDGE, ANOTHER_FLOW.rpartition(",")[0])
    changed = [each.revalidated for each in found if each.revalidated]
    assert flows in changed[:2]


def test_the_slowest_checks_of_a_round_are_shown(ovs: Instance, tmp_path: Path) -> None:
    options = ("--slowest", "3")
    with JsonFollower(tmp_path, RevalidatorRound, "revalidator", "-p", ovs.pid, *options) as rounds:
        flows = settled(ovs, rounds).keys
        so_far = len(rounds.seen())
        ovs.ofctl("add-flow", kernel_datapath.BRIDGE, ANOTHER_FLOW)
        found = rounds.until(lambda seen: any(each.revalidated for each in seen), so_far)
        ovs.ofctl("--strict", "del-flows", kernel_datapath.BRIDGE, ANOTHER_FLOW.rpartition(",")[0])
        dumped = ovs.appctl("dpctl/dump-flows", "-m")
    checked = next(each for each in found if each.revalidated)
    assert checked.checks is not None
    assert checked.checks.count == checked.revalidated == flows
    assert len(checked.checks.slowest) == 3
    work_ns = [each.work_ns for each in checked.checks.slowest]
    assert work_ns == sorted(work_ns, reverse=True)
    # Those that are not shown were no longer. Where a switch was missed, how long they waited for a
    # CPU is not known.
    assert sum(work_ns) <= checked.checks.ns
    if checked.checks.waited_ns is not None:
        whole_ns = checked.checks.ns - checked.checks.waited_ns
        assert sum(work_ns) <= whole_ns <= sum(work_ns) + (flows - 3) * work_ns[-1]
    for each in checked.checks.slowest:
        assert f"ufid:{each.ufid}" in dumped
        assert 0 < each.ns <= checked.duration_ns
        assert each.result == "kept"
        assert os.path.exists(f"/proc/{ovs.pid}/task/{each.tid}")


def test_where_the_leaders_time_went(ovs: Instance, tmp_path: Path) -> None:
    with following(ovs, tmp_path) as follower:
        (first, *_) = follower.until(bool)
        schedstat = Path(f"/proc/{ovs.pid}/task/{first.tid}/schedstat")
        so_far = len(follower.seen())
        stolen_before_ns, before_ns = stolen_ns(), int(schedstat.read_text().split()[0])
        follower.until(lambda rounds: len(rounds) >= 3, begun=so_far)
        ovs.appctl("upcall/show")
        found = follower.seen()[so_far + 1 :]
        after_ns = int(schedstat.read_text().split()[0])
    times = [each.leader_time for each in found if each.leader_time is not None]
    assert times, "no round whose context switches were all seen"
    for each in found:
        if (part := each.leader_time) is not None:
            assert part.run_ns + part.runnable_ns + part.blocked_ns == each.duration_ns
            assert part.run_ns > 0
    # A tick at most is not in it yet: include/linux/sched.h, sum_exec_runtime.
    at_most_ns = after_ns - before_ns + 10_000_000 + most_stolen_ns(stolen_before_ns)
    assert sum(part.run_ns for part in times) <= at_most_ns


@pytest.mark.parametrize("options", [(), ("--quiet", "--compress-output"), ("--json",)])
def test_a_report_from_a_recording_is_the_same(
    ovs: Instance, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "rounds.kdr"
    live = commands.run("revalidator", "-p", ovs.pid, "--count", 3, "-o", path, *options)
    assert live.returncode == 0, live.stderr
    reported = commands.run("report", path, *options)
    assert (reported.returncode, reported.stderr) == (0, "")
    assert reported.stdout == live.stdout
    if options == ("--json",):
        assert live.stdout.count("\n") == 3
    else:
        assert "3 rounds in" in live.stdout
        assert max(map(len, live.stdout.splitlines())) <= 88


def test_without_counting_flows(ovs: Instance) -> None:
    done = commands.run("revalidator", "-p", ovs.pid, "--count", 1, "--json", "--no-ukey-count")
    found = msgspec.json.decode(done.stdout, type=RevalidatorRound)
    assert (found.dumped, found.swept, found.revalidated, found.deleted) == (None,) * 4
    assert found.n_flows >= PACKETS


def test_flows_that_are_idle_are_deleted(ovs: Instance, tmp_path: Path) -> None:
    # The last: the flows are gone then.
    with following(ovs, tmp_path) as follower:
        flows = settled(ovs, follower).keys
        so_far = len(follower.seen())
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")
        found = follower.until(lambda rounds: rounds and rounds[-1].n_flows == 0, so_far)
        assert upcall_show(ovs).keys == 0
    assert sum(each.deleted or 0 for each in found) == flows


def test_each_datapath_has_rounds_of_its_own(datapath: Instance, tmp_path: Path) -> None:
    datapath.vsctl(
        "add-br", "br-netdev", "--", "set", "Bridge", "br-netdev", "datapath_type=netdev"
    )
    datapath.vsctl("set", "Open_vSwitch", ".", NO_TIME)
    try:
        kernel_datapath.send(datapath, kernel_datapath.packets(PACKETS))
        with following(datapath, tmp_path) as follower:
            found = follower.until(
                lambda rounds: (
                    len({each.datapath for each in rounds[-9:] if each.n_flows}) == 1
                    and len({each.datapath for each in rounds}) == 2
                    and len(rounds) > 9
                )
            )
        shown = datapath.appctl("dpctl/show", "system@ovs-system")
    finally:
        datapath.vsctl("remove", "Open_vSwitch", ".", "other_config", "max-idle")
        datapath.vsctl("del-br", "br-netdev")
    flows = re.search(r"flows: (\d+)", shown)
    assert flows is not None
    last = {each.datapath: each for each in found}
    assert last.keys() == {"system@ovs-system", "netdev@ovs-netdev"}
    assert last["system@ovs-system"].n_flows == int(flows[1]) >= PACKETS
    assert last["netdev@ovs-netdev"].n_flows == 0


@pytest.mark.parametrize("command", ["bridge-loop", "flows", "revalidator"])
def test_monitor_ends_with_its_ovs_and_starts_with_another(
    root_user: None, usdt_binaries: Binaries, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "rounds.kdr"
    for _ in range(2):
        with Instance(usdt_binaries) as dying:
            dying.add_bridge("br0")
            options = (command, "-p", dying.pid, "-o", path, "--json")
            out, err = tmp_path / "out", tmp_path / "err"
            with out.open("w") as stdout, err.open("w") as stderr:
                tool = commands.start(*options, stdout=stdout.fileno(), stderr=stderr.fileno())
            deadline = time.monotonic() + HANGS_S
            # What flows says needs flows.
            while not (out.read_text() or (command == "flows" and "Ctrl-C" in err.read_text())):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.kill(dying.pid, signal.SIGKILL)
            assert tool.wait(HANGS_S) == 0
            assert err.read_text().endswith(f"process {dying.pid} exited\n")
        with open_recording(path) as recording:
            assert list(recording.read()) or command == "flows"
            assert recording.trailer is not None
            assert recording.trailer.ended == "exit"
        assert commands.run("report", path, "--json").stdout == out.read_text()


def test_revalidator_without_usdt_probes_names_the_build_it_needs(
    root_user: None, ovs_binaries: Binaries
) -> None:
    with Instance(ovs_binaries) as bare:
        done = commands.run("revalidator", "-p", bare.pid)
    assert done.returncode == 66  # EX_NOINPUT
    assert done.stderr.count("\n") == 1
    assert "it takes an OVS built with --enable-usdt-probes" in done.stderr
    assert "from 3.2 on" in done.stderr


def test_another_process_has_no_such_probe(root_user: None) -> None:
    with sleeping() as sleeper:
        done = commands.run("revalidator", "-p", sleeper.pid)
    assert done.returncode == 66
    assert "no USDT probe u:udpif_revalidator:start_dump" in done.stderr
