"""What the PMD threads of a real Open vSwitch did: equal to what ovs-appctl says of them."""

import mmap
import os
import re
import struct
import time
from collections.abc import Iterator, Mapping
from datetime import UTC
from pathlib import Path

import pytest

from kernel_delay.analysis.rounds import main_cause, ran_functions
from kernel_delay.commands.log.files import find
from kernel_delay.commands.log.survey import survey
from kernel_delay.model import PmdStats, Sample
from kernel_delay.openvswitch import losses as counters_module
from kernel_delay.openvswitch.log_lines import parse_related
from lab.binaries import Binaries
from lab.instance import Instance
from tests.integration.capture.test_watch_metrics import watching
from tests.integration.test_packet_losses import sample_while
from tests.needs import make_real_time
from tests.watching.watch import Watching, samples_in, watch_of
from tests.workload import HANGS_S, compile_workload, stop_for, wait_until

PACKETS = 20
STOPS, MOST_STOPS = 3, 30
STOPPED_S = 0.1
ITERATION_MS = 100
READ_S = 0.3

# What is that long is a gap: of less the tool's own readings can be the cause.
LEAST_GAP_NS = 20_000_000
SAMPLED_S = 3
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
            deadline = time.monotonic() + HANGS_S
            while sum(counted(ovs, "Rx packets").values()) < PACKETS:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            iterations.append(*counted(ovs, "Iterations").values())

        stats = stats_of(sample_while(ovs, receive))
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


@pytest.fixture
def pmd_ovs(root_user: None, ovs_binaries: Binaries) -> Iterator[Instance]:
    """An Open vSwitch with one PMD thread, which polls one port."""
    with Instance(ovs_binaries, options=("--enable-dummy", "--dummy-numa", "0")) as ovs:
        ovs.add_bridge("brpmd")
        ovs.vsctl("add-port", "brpmd", "p1", "--", "set", "Interface", "p1", "type=dummy-pmd")
        yield ovs


@pytest.mark.long
def test_metrics_have_what_a_pmd_thread_received(pmd_ovs: Instance) -> None:
    with watching(pmd_ovs.pid, "--no-stacks") as watch:
        # The counts begin with an answer that has the thread.
        deadline = time.monotonic() + HANGS_S
        while not watch.scrape().value("kernel_delay_pmd_iterations_total", core="0"):
            assert time.monotonic() < deadline
        for number in range(PACKETS):
            pmd_ovs.appctl("netdev-dummy/receive", "p1", PACKET.format(number))
        while watch.scrape().value("kernel_delay_pmd_packets_total", core="0") < PACKETS:
            assert time.monotonic() < deadline
        scrape = watch.scrape()
        assert scrape.value("kernel_delay_pmd_packets_total") == PACKETS
        assert scrape.value("kernel_delay_pmd_upcalls_total") == sum(
            counted(pmd_ovs, "Upcalls").values()
        )


def suspicious(ovs: Instance) -> list[str]:
    log = (ovs.folder / "ovs-vswitchd.log").read_text()
    return [line for line in log.splitlines() if "uspicious iteration (" in line]


def test_each_suspicious_iteration_has_a_record_or_is_counted(
    pmd_ovs: Instance, tmp_path: Path
) -> None:
    """It is stopped for a tenth of a second: the iteration is as long, and has a cause."""
    with watch_of(pmd_ovs.pid, tmp_path / "records", "--no-stacks", "--pmd-gap", "50ms") as watch:
        pmd_ovs.appctl("dpif-netdev/pmd-perf-log-set", "on", "-us", "50000")
        pmd_ovs.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-perf-metrics=true")
        # That it left its CPU may be missed: then there is no record. It may be stopped between two
        # iterations, as it takes up new options: then there is no line.
        for _ in range(MOST_STOPS):
            stop_for(pmd_ovs.pid, STOPPED_S)
            time.sleep(READ_S)
            if len(watch.recordings()) >= STOPS and len(suspicious(pmd_ovs)) >= STOPS:
                break
        pmd_ovs.appctl("dpif-netdev/pmd-perf-log-set", "off")
        # It writes the lines that it has yet.
        pmd_ovs.appctl("vlog/reopen")
        watch.end()
        logged = [parse_related(line) for line in suspicious(pmd_ovs)]
        summed = survey(find([str(pmd_ovs.folder / "ovs-vswitchd.log")]).logs, (), UTC).iterations
        said = watch.said()
    records = [each for path in watch.recordings() for each in samples_in(path)]
    found = [line for each in records if each.round for line in each.round.related]
    iterations = [line for line in found if line.what == "iteration"]
    left = sum(int(count) for count in re.findall(r"logged (\d+) suspicious iteration", said))
    assert len(records) >= STOPS
    assert len(iterations) + left == len(logged) >= STOPS
    for each in iterations:
        assert each in logged
    assert any(each.verdict and each.verdict[0].rule == "stopped" for each in records)
    assert sum(each.iterations for each in summed) == len(logged)
    longest_us = [each.longest.length_us for each in summed]
    assert max(longest_us) == max(each.length_us or 0 for each in logged if each)
    # There were no packets.
    assert all(each.causes.keys() <= {"neither", "unknown"} for each in summed)


def pmd_tid(pid: int) -> int:
    """The PMD thread's; a thread that it made to write the log has the same name."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return min(int(each.name) for each in tasks if (each / "comm").read_text().startswith("pmd-c"))


@pytest.mark.long
def test_iteration_that_kept_its_cpu_has_a_record(
    root_user: None, ovs_binaries: Binaries, tmp_path: Path
) -> None:
    """A real-time thread is not preempted: Open vSwitch logs the iteration."""
    request = tmp_path / "request"
    request.write_bytes(bytes(4))
    preloaded = {
        "LD_PRELOAD": os.fspath(compile_workload("long_iteration", "-shared", "-fPIC", "-ldl")),
        "LONG_ITERATION": os.fspath(request),
    }
    options = ("--enable-dummy", "--dummy-numa", "0")
    with (
        Instance(ovs_binaries, options=options, environment=preloaded) as ovs,
        request.open("r+b") as file,
        mmap.mmap(file.fileno(), 4) as asked,
    ):
        ovs.add_bridge("brpmd")
        ovs.vsctl("add-port", "brpmd", "p1", "--", "set", "Interface", "p1", "type=dummy-pmd")
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-perf-metrics=true")
        folder, within = tmp_path / "records", ("chrt", "--fifo", "2")
        with watch_of(ovs.pid, folder, "--pmd-gap", "20ms", within=within) as watch:
            # Open vSwitch may take them for shorter: it measures the TSC's rate once, in a sleep.
            ovs.appctl("dpif-netdev/pmd-perf-log-set", "on", "-us", str(200 * ITERATION_MS))
            tid = pmd_tid(ovs.pid)
            # From the first line on it is sampled. Beside other real-time threads the kernel may
            # throttle it (sched(7)); and the readings around it may be late on a busy machine.
            wait_until(lambda: keeps_its_cpu(tid, asked), "an iteration that kept its CPU")
            time.sleep(SAMPLED_S)
            wait_until(
                lambda: keeps_its_cpu(tid, asked) and sampled_in(watch) != [],
                "a record of an iteration that was sampled",
            )
            watch.end()
        lines = [parse_related(line) for line in suspicious(ovs)]
    record = sampled_in(watch)[-1]
    assert record.round is not None
    assert record.round.related[0] in lines
    assert record.verdict[0].rule == "pmd_iteration"
    assert ran_functions(record)[0].name == "kd_iterate"
    assert "It ran mostly in kd_iterate." in main_cause(record)


def keeps_its_cpu(tid: int, asked: mmap.mmap) -> bool:
    """Have a PMD thread iterate for long, as a real-time thread; return whether it kept its CPU."""
    make_real_time(tid, 1)
    time.sleep(READ_S)
    before_ns = waited_ns(tid)
    asked[:] = struct.pack("=I", ITERATION_MS)
    wait_until(lambda: asked[:] == bytes(4), "the iteration")
    time.sleep(READ_S)
    took_ns = waited_ns(tid) - before_ns
    os.sched_setscheduler(tid, os.SCHED_OTHER, os.sched_param(0))
    return took_ns < LEAST_GAP_NS


def waited_ns(tid: int) -> int:
    """How long a thread waited for a CPU in all, by proc_pid_schedstat(5)."""
    return int(Path(f"/proc/{tid}/schedstat").read_text().split()[1])


def sampled_in(watch: Watching) -> list[Sample]:
    return [each for each in iterations_in(watch) if ran_functions(each)]


def iterations_in(watch: Watching) -> list[Sample]:
    found = [each for path in watch.recordings() for each in samples_in(path)]
    return [each for each in found if each.window.ended_by == "iteration"]
