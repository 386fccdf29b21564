"""A private Open vSwitch: it starts, switches real packets, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kernel_delay.errors import PermissionDeniedError
from lab.binaries import Binaries
from lab.child import ChildFailedError
from lab.disturbers import Competitor
from lab.instance import Instance, OvsCommandError
from lab.traffic import BRIDGE, Traffic
from tests.workload import HANGS_S, LASTS_S


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + HANGS_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def processes_of(folder: Path) -> list[int]:
    """Those whose command line or environment names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in words:
            found.append(int(process.name))
    return found


def host_links() -> set[str]:
    return set(os.listdir("/sys/class/net"))


def thread_names(pid: int) -> list[str]:
    return [path.read_text().strip() for path in Path(f"/proc/{pid}/task").glob("*/comm")]


def flow_misses(ovs: Instance) -> int:
    """Packets that no flow in the datapath matched, hence upcalls."""
    match = re.search(r"missed:(\d+)", ovs.appctl("dpctl/show"))
    assert match is not None
    return int(match[1])


def test_it_answers(ovs: Instance, ovs_binaries: Binaries) -> None:
    assert Path(f"/proc/{ovs.pid}/comm").read_text().strip() == "ovs-vswitchd"
    assert Path(os.readlink(f"/proc/{ovs.pid}/exe")) == ovs_binaries.ovs_vswitchd.resolve()
    assert "Open vSwitch" in ovs.appctl("version")
    ovs.add_bridge("brtest")
    assert ovs.vsctl("get", "Bridge", "brtest", "datapath_type").strip() == "netdev"
    assert "n_tables" in ovs.ofctl("show", "brtest")
    ovs.vsctl("del-br", "brtest")
    assert "brtest" not in ovs.vsctl("list-br")


def test_it_has_a_network_of_its_own(ovs: Instance) -> None:
    before = host_links()
    ovs.add_bridge("brtest")
    devices = Path(f"/proc/{ovs.pid}/net/dev").read_text()
    ovs.vsctl("del-br", "brtest")
    assert "brtest" in devices
    assert host_links() == before


def test_a_failing_command_is_one_line(ovs: Instance) -> None:
    with pytest.raises(OvsCommandError, match="no bridge named nosuch") as raised:
        ovs.vsctl("del-br", "nosuch")
    assert "\n" not in str(raised.value)
    with pytest.raises(OvsCommandError, match="not a valid command"):
        ovs.appctl("nosuch/command")


def test_bridge_creation_failure_is_reported_with_its_reason(ovs: Instance) -> None:
    # A device of this name is in the way of the bridge's own port. From 4.0 on ovs-vsctl says so.
    ovs.in_network(["ip", "link", "add", "brtest", "type", "veth"])
    try:
        with pytest.raises(
            OvsCommandError, match=r"(no bridge|setting up) '?brtest'?: .*brtest"
        ) as raised:
            ovs.add_bridge("brtest")
        assert "\n" not in str(raised.value)
    finally:
        ovs.vsctl("--if-exists", "del-br", "brtest")
        ovs.in_network(["ip", "link", "delete", "brtest"])


def test_two_side_by_side_know_nothing_of_each_other(ovs: Instance, ovs_binaries: Binaries) -> None:
    with Instance(ovs_binaries) as other:
        assert other.pid != ovs.pid
        assert other.folder != ovs.folder
        other.add_bridge("brother")
        assert "brother" not in ovs.vsctl("list-br")
    assert "Open vSwitch" in ovs.appctl("version")


def test_nothing_is_left_behind(root_user: None, ovs_binaries: Binaries) -> None:
    links = host_links()
    with Instance(ovs_binaries) as instance:
        folder = instance.folder
        assert len(processes_of(folder)) == 2
        with Traffic(instance, rate=100, seconds=LASTS_S):
            pass
    assert not folder.exists()
    assert processes_of(folder) == []
    assert host_links() == links


def test_a_switch_that_cannot_start_takes_the_database_down(
    root_user: None, ovs_binaries: Binaries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(ChildFailedError, match="ovs-vswitchd ended too early") as raised,
        Instance(ovs_binaries, options=["--no-such-option"]),
    ):
        pass
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


def test_without_root_it_says_so(ovs_binaries: Binaries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(PermissionDeniedError, match="root"), Instance(ovs_binaries):
        pass


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_its_parent_is_its_own(
    root_user: None, ovs_binaries: Binaries, tmp_path: Path, how: signal.Signals
) -> None:
    program = textwrap.dedent("""
        import sys, time
        import msgspec
        from lab.binaries import Binaries
        from lab.instance import Instance
        from lab.traffic import Traffic
        binaries = msgspec.json.decode(sys.argv[1], type=Binaries, dec_hook=lambda kind, x: kind(x))
        with Instance(binaries) as ovs, Traffic(ovs, rate=100, seconds=3600):
            print(ovs.folder, flush=True)
            time.sleep(3600)
    """)
    where = msgspec.json.encode(ovs_binaries, enc_hook=str).decode()
    parent = subprocess.Popen(
        [sys.executable, "-c", program, where],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    with parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip())
        assert folder.parent == tmp_path
        assert len(processes_of(folder)) == 2
        parent.send_signal(how)
    assert eventually(lambda: processes_of(tmp_path) == [])
    # A killed process can't remove its folder; an interrupted one must.
    assert folder.exists() == (how == signal.SIGKILL)


def test_traffic_is_flow_misses(busy_ovs: Instance) -> None:
    before = flow_misses(busy_ovs)
    assert eventually(lambda: flow_misses(busy_ovs) > before + 200)
    flows = busy_ovs.appctl("dpctl/dump-flows")
    ports = set(re.findall(r"proto=17.*udp\(src=(\d+),dst=4789\)", flows))
    assert len(ports) > 100
    assert any(name.startswith("revalidator") for name in thread_names(busy_ovs.pid))


def test_traffic_leaves_the_instance_as_it_was(ovs: Instance) -> None:
    for _ in range(2):
        with Traffic(ovs, rate=100, seconds=LASTS_S):
            assert BRIDGE in ovs.vsctl("list-br")
        assert ovs.vsctl("list-br") == ""
        devices = Path(f"/proc/{ovs.pid}/net/dev").read_text()
        assert "client" not in devices
        assert "server" not in devices


def test_traffic_ends_by_itself(ovs: Instance) -> None:
    with Traffic(ovs, rate=100, seconds=1.0):

        def still() -> bool:
            before = flow_misses(ovs)
            time.sleep(1.0)
            return flow_misses(ovs) == before

        assert eventually(still)


def test_a_pmd_thread_polls_the_client(root_user: None, ovs_binaries: Binaries) -> None:
    cpu = max(os.sched_getaffinity(0))
    with (
        Instance(ovs_binaries) as instance,
        Traffic(instance, rate=200, seconds=LASTS_S, pmd_cpu=cpu) as traffic,
    ):
        if not traffic.pmd:
            pytest.skip("this Open vSwitch or this kernel has no AF_XDP")
        assert any(name.startswith("pmd-c") for name in thread_names(instance.pid))
        flows = instance.appctl("dpctl/dump-flows", "-m", "pmd=" + str(cpu))
        assert "198.18.0.1" in flows


def test_a_competitor_takes_its_cpu(root_user: None) -> None:
    cpu = max(os.sched_getaffinity(0))
    with Competitor(cpu, seconds=30.0) as competitor:
        assert os.sched_getaffinity(competitor.pid) == {cpu}
        ran = Path(f"/proc/{competitor.pid}/schedstat")
        before = int(ran.read_text().split()[0])
        assert eventually(lambda: int(ran.read_text().split()[0]) > before + 50_000_000)
    assert not Path(f"/proc/{competitor.pid}").exists()


def test_a_competitor_ends_by_itself(root_user: None) -> None:
    with Competitor(max(os.sched_getaffinity(0)), seconds=0.1) as competitor:
        assert eventually(lambda: not competitor.running())
