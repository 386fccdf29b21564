"""The monitors on an Open vSwitch without USDT probes, beside the places where these were.

Its notes of the probes are removed, and its code is the same: perf counts what a monitor of probes
would have seen.
"""

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from shutil import copy2
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from kernel_delay.monitors.bridge_loop.probe import LoopProbes
from kernel_delay.monitors.revalidator.probe import RevalidatorProbes
from kernel_delay.probes import UserProbe
from kernel_delay.probes.objects import file_object
from lab.binaries import Binaries
from lab.instance import Instance
from tests import commands
from tests.integration import kernel_datapath
from tests.integration.probes.hit_counter import counted, hits
from tests.integration.test_upcall_commands import UPCALL, Monitored
from tests.workload import HANGS_S

PACKETS = 100
ANOTHER_FLOW = "priority=1,in_port=9,actions=drop"


def run(*command: object) -> None:
    subprocess.run([str(each) for each in command], check=True)


@pytest.fixture(scope="module", params=["symbols", "a debug file"])
def binaries(
    request: pytest.FixtureRequest,
    usdt_binaries: Binaries,
    tmp_path_factory: pytest.TempPathFactory,
) -> Binaries:
    """As dh_strip leaves it, or with its symbols."""
    program = tmp_path_factory.mktemp("ovs") / "ovs-vswitchd"
    copy2(usdt_binaries.ovs_vswitchd, program)
    run("objcopy", "--remove-section=.note.stapsdt", program)
    if request.param == "a debug file":
        debug = program.parent / ".debug" / "ovs-vswitchd.debug"
        debug.parent.mkdir()
        run("objcopy", "--only-keep-debug", "--compress-debug-sections", program, debug)
        run("strip", "--remove-section=.comment", "--remove-section=.note", program)
        run("objcopy", f"--add-gnu-debuglink={debug}", program)
    return replace(usdt_binaries, ovs_vswitchd=program)


@pytest.fixture(scope="module")
def ovs(root_user: None, binaries: Binaries) -> Iterator[Instance]:
    """With flows that come no more, and are kept."""
    with Instance(binaries) as ovs, kernel_datapath.bridge(ovs):
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=3600000")
        kernel_datapath.send(ovs, kernel_datapath.packets(PACKETS))
        yield ovs


class Span(NamedTuple):
    """When something began and ended, in ns of CLOCK_MONOTONIC, and how many hits it is."""

    start_ns: int
    stop_ns: int
    times: int = 1


class Hits:
    """How often threads pass a probe of the binary that has its notes, from now on."""

    def __init__(self, closing: ExitStack, named: str, binary: Path, ovs: Instance) -> None:
        program = Path(f"/proc/{ovs.pid}/exe").resolve()
        self.began_ns = time.monotonic_ns()
        self._counters = []
        for probe in file_object(binary).usdt_probes().probes:
            if f"{probe.provider}:{probe.name}" == named:
                point = UserProbe(str(program), "", probe.file_offset)
                for tid in tids(ovs):
                    with suppress(ProcessLookupError):  # a thread that has ended
                        self._counters.append(closing.enter_context(counted(point, tid)))
        assert self._counters
        self.counting_ns = time.monotonic_ns()

    def read(self) -> None:
        self.read_ns = time.monotonic_ns()
        self.count = sum(map(hits, self._counters))
        self.done_ns = time.monotonic_ns()

    def assert_are(self, spans: Sequence[Span]) -> None:
        """They are as many as `spans` count, of which those at the ends may be in part."""
        inside = [s for s in spans if self.counting_ns <= s.start_ns and s.stop_ns <= self.read_ns]
        touched = [s for s in spans if self.began_ns <= s.stop_ns and s.start_ns <= self.done_ns]
        at_least, at_most = (sum(each.times for each in part) for part in (inside, touched))
        # A probe stands before its function; and the kernel may run no program at a hit.
        assert at_least - 1 <= self.count <= at_most + 1 + at_most // 50


def tids(ovs: Instance) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{ovs.pid}/task").iterdir()]


def waited_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_passes_are_as_many_as_hits_of_the_probes(
    ovs: Instance, usdt_binaries: Binaries, closing: ExitStack
) -> None:
    events: list[tuple[str, int]] = []

    def after(time_ns: int) -> bool:
        events.extend((event.probe, event.time_ns) for event, _ in probes.take())
        return bool(events) and events[-1][1] > time_ns

    with LoopProbes(ovs.pid) as probes:
        counters = {
            name: Hits(closing, f"main:{name}", usdt_binaries.ovs_vswitchd, ovs)
            for name in ("run_start", "poll_block")
        }
        for _ in range(20):
            ovs.appctl("version")
        for counter in counters.values():
            counter.read()
        waited_for(lambda: after(counter.done_ns))
        for _ in range(2):
            ovs.appctl("version")
        waited_for(lambda: after(counter.done_ns))
        assert not any(probes.missed().values())
    for name, counter in counters.items():
        assert counter.count >= 20
        counter.assert_are([Span(at, at) for probe, at in events if probe == name])


def test_rounds_and_flows_are_as_many_as_hits_of_the_probes(
    ovs: Instance, usdt_binaries: Binaries, closing: ExitStack
) -> None:
    with RevalidatorProbes(ovs.pid, count_flows=True, slowest=2) as probes:
        rounds = list(probes.take())
        names = ("udpif_revalidator:sweep_done", "revalidate_ukey__:entry")
        ended, revalidated = (
            Hits(closing, name, usdt_binaries.ovs_vswitchd, ovs) for name in names
        )

        def seen(of_interest: Callable[[], bool]) -> None:
            def taken() -> bool:
                rounds.extend(probes.take())
                return of_interest()

            waited_for(taken)

        ovs.ofctl("add-flow", kernel_datapath.BRIDGE, ANOTHER_FLOW)
        seen(lambda: sum(each.revalidated or 0 for each in rounds) >= PACKETS)
        ended.read()
        revalidated.read()
        seen(lambda: rounds[-1].start_ns > revalidated.done_ns)
    assert revalidated.count >= PACKETS
    ended.assert_are([Span(each.stop_ns, each.stop_ns) for each in rounds])
    revalidated.assert_are(
        [Span(each.start_ns, each.stop_ns, each.revalidated or 0) for each in rounds]
    )
    for each in rounds:
        assert each.checks is not None
        assert each.checks.count == each.revalidated
        assert len(each.checks.slowest) == min(2, each.checks.count)
    last = rounds[-1]
    assert last.n_flows >= PACKETS
    assert last.state is not None
    assert last.state.max_n_flows >= last.n_flows
    assert last.dumped is None
    # max-revalidator of vswitchd/vswitch.xml is 500; the leader may lose the CPU before its dump.
    assert 0 < last.poll_wait_ms <= 500


def test_deleted_flows_are_those_that_are_gone(ovs: Instance) -> None:
    def flows() -> int:
        shown = re.search(r"flows: (\d+)", ovs.appctl("dpctl/show", "netdev@ovs-netdev"))
        assert shown is not None
        return int(shown[1])

    with RevalidatorProbes(ovs.pid, count_flows=True) as probes:
        rounds = list(probes.take())
        before = flows()
        assert before >= PACKETS
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=100")
        waited_for(lambda: flows() == 0)
        gone_ns = time.monotonic_ns()

        def seen() -> bool:
            rounds.extend(probes.take())
            return bool(rounds) and rounds[-1].start_ns > gone_ns

        waited_for(seen)
        missed = probes.missed()["flow_results"]
    ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=3600000")
    kernel_datapath.send(ovs, kernel_datapath.packets(PACKETS))
    assert all(each.deleted == each.removed for each in rounds)
    removed = sum(each.removed or 0 for each in rounds)
    assert removed <= before <= removed + missed


@pytest.mark.parametrize(
    ("command", "noted"),
    [
        ("bridge-loop", "measured at memory_run(), netdev_wait()"),
        (
            "revalidator",
            "it is not known which flows are kept or modified, why flows are deleted",
        ),
    ],
)
def test_the_source_is_a_line(ovs: Instance, command: str, noted: str) -> None:
    done = commands.run(command, "-p", ovs.pid, "--count", 2, "-q")
    assert done.returncode == 0, done.stderr
    assert noted in done.stderr


def test_each_packet_of_another_flow_is_one_upcall(
    root_user: None, binaries: Binaries, tmp_path: Path
) -> None:
    if not kernel_datapath.is_there():
        pytest.skip("the kernel module openvswitch is not loaded")
    with Instance(binaries, datapath="system") as ovs, kernel_datapath.bridge(ovs):
        monitored = Monitored(ovs, tmp_path / "upcalls.pcapng")
    upcalls = [match for line in monitored.lines if (match := UPCALL.match(line))]
    found = {(match[1], match[2], match[5]) for match in upcalls}
    assert found == {(kernel_datapath.PORT, "miss", "ok")}
    assert sorted(int(match[3]) for match in upcalls) == [len(sent) for sent in monitored.sent]
    keys = re.findall(r"udp\(src=(\d+),dst=9\)", "\n".join(monitored.lines))
    assert {int(port) for port in keys} == {1024 + number for number in range(PACKETS)}
    assert monitored.summary == f"{PACKETS} upcalls received, 0 dropped by the kernel"
