"""`kernel-delay upcall-monitor` and `upcall-cost`, on packets through the kernel's datapath."""

import os
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernel_delay.monitors.upcalls.costs import costs_of
from kernel_delay.monitors.upcalls.events import EVENT_TYPES, DpUpcall, FlowPut, PacketCmdExecute
from kernel_delay.monitors.upcalls.join import UpcallSet, join
from kernel_delay.openvswitch.detrace import rules_in
from kernel_delay.openvswitch.flow_key import format_key
from lab.binaries import Binaries
from lab.instance import Instance
from lab.traffic import Traffic, upcalls_in_user_space
from tests import commands
from tests.integration import kernel_datapath
from tests.integration.netlink_sockets import tiny_receive_buffers
from tests.integration.test_flows_command import dumped, until_there, without_counts
from tests.needs import needed
from tests.recordings import UpcallRecording, read_upcalls
from tests.workload import LASTS_S, wait_until

PACKETS = 100
# With all that is captured of each, more than a mebibyte.
MANY = 600
LIMIT_S = 200.0
# Every 0.1 s, for longer than flows wait for their rules.
SENT = 40
WHOLE = ("--flow-key-size", "2048")
# Columns of upcall-monitor: the port, the type and the packet's length, then the result.
UPCALL = re.compile(r"\d+\.\d{9} +\[\d+\] .* (\S+) +(miss|action) +(\d+) +(\d+|-) (\w+)")


class Tool:
    """A command, from when it says that it is attached; killed when it takes too long."""

    def __init__(self, command: str, pid: int, *options: str) -> None:
        reader, writer = os.pipe()
        self._stdout = open(reader)  # noqa: SIM115 - rest() closes it
        self.process = commands.start(command, "--pid", pid, *options, stdout=writer, stderr=None)
        os.close(writer)
        self._limit = threading.Timer(LIMIT_S, self.process.kill)
        self._limit.start()
        self.header = self._line()

    def lines(self, count: int, pattern: re.Pattern[str]) -> list[str]:
        """What it prints, up to the line that is the `count`th to match."""
        found = []
        while count:
            line = self._line()
            found.append(line)
            count -= bool(pattern.match(line))
        return found

    def rest(self, *, interrupt: bool) -> str:
        """What it prints until its end."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        with self._stdout:
            output = self._stdout.read()
        status = self.process.wait()
        self._limit.cancel()
        assert status == 0
        return output

    def _line(self) -> str:
        line = self._stdout.readline()
        # What it says of its end is on stderr, which is pytest's.
        assert line, f"it ended with {self.process.wait()}; {LIMIT_S} s were its limit"
        return line


class Monitored:
    """What upcall-monitor made of the packets that were sent."""

    def __init__(self, ovs: Instance, pcap: Path) -> None:
        self.sent = [
            packet
            for number in range(PACKETS)
            for packet in kernel_datapath.packets(1, number, size=60 + 13 * number)
        ]
        self.pcap = pcap
        whole = ("--packet-size", "2048", "--flow-key-size", "2048")
        self.recording = pcap.with_name("upcalls.kdr")
        to = ("-w", str(pcap), "-o", str(self.recording))
        tool = Tool("upcall-monitor", ovs.pid, *whole, "-k", "decode", *to)
        kernel_datapath.send(ovs, self.sent)
        self.lines = tool.lines(PACKETS, UPCALL)
        rest = tool.rest(interrupt=True).splitlines()
        self.lines += rest[:-1]
        self.summary = rest[-1]
        self.header = tool.header


@pytest.fixture(scope="module")
def monitored(datapath: Instance, tmp_path_factory: pytest.TempPathFactory) -> Monitored:
    return Monitored(datapath, tmp_path_factory.mktemp("monitor") / "upcalls.pcapng")


def test_each_packet_of_another_flow_is_one_upcall(monitored: Monitored) -> None:
    upcalls = [match for line in monitored.lines if (match := UPCALL.match(line))]
    assert {(match[1], match[2], match[5]) for match in upcalls} == {
        (kernel_datapath.PORT, "miss", "ok")
    }
    assert sorted(int(match[3]) for match in upcalls) == [len(sent) for sent in monitored.sent]
    assert monitored.summary == f"{PACKETS} upcalls received, 0 dropped by the kernel"


def test_the_keys_are_those_of_the_packets(monitored: Monitored) -> None:
    ports = {
        int(match[1])
        for line in monitored.lines
        if (match := re.search(r"udp\(src=(\d+),dst=9\)", line))
    }
    assert ports == {1024 + number for number in range(PACKETS)}


def test_tshark_reads_the_packets_back_byte_for_byte(monitored: Monitored) -> None:
    command = [needed("tshark"), "-n", "-r", str(monitored.pcap), "-T", "jsonraw", "-j", "frame"]
    home = {**os.environ, "HOME": str(monitored.pcap.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=home)
    read = re.findall(r'"frame_raw": \[\s*"([0-9a-f]+)"', done.stdout)
    assert sorted(read) == sorted(map(bytes.hex, monitored.sent))
    assert stat.S_IMODE(monitored.pcap.stat().st_mode) == 0o600


def test_all_that_came_before_its_end_is_shown(datapath: Instance) -> None:
    """More than is read at a time, which is a mebibyte."""
    datapath.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=3600000")
    datapath.appctl("revalidator/purge")
    until_there(datapath, 0)
    whole = ("--packet-size", "2048", "--flow-key-size", "2048", "--buffer-page-count", "4096")
    tool = Tool("upcall-monitor", datapath.pid, *whole)
    before = kernel_datapath.lost(datapath)
    tool.process.send_signal(signal.SIGSTOP)
    received = 0
    try:
        for first in range(0, MANY, PACKETS):
            kernel_datapath.send(datapath, kernel_datapath.packets(PACKETS, 2000 + first))
            received = first + PACKETS - (kernel_datapath.lost(datapath) - before)
            until_there(datapath, received)  # each has a flow of its own
    finally:
        datapath.vsctl("remove", "Open_vSwitch", ".", "other_config", "max-idle")
        tool.process.send_signal(signal.SIGINT)
        tool.process.send_signal(signal.SIGCONT)
    summary = tool.rest(interrupt=False).splitlines()[-1]
    assert summary.startswith(f"{received} upcalls received")
    assert received > MANY / 2


def test_a_report_from_a_recording_is_the_same(monitored: Monitored, tmp_path: Path) -> None:
    pcap = tmp_path / "again.pcapng"
    done = commands.run("report", monitored.recording, "-k", "decode", "-w", pcap)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == monitored.header.rstrip("\n")
    assert lines[1:-1] == [line.rstrip("\n") for line in monitored.lines]
    assert lines[-1] == monitored.summary
    assert pcap.read_bytes() == monitored.pcap.read_bytes()


def test_upcalls_dropped_by_the_kernel_have_their_error(datapath: Instance) -> None:
    lost_before = kernel_datapath.lost(datapath)
    tool = Tool("upcall-monitor", datapath.pid, "--result", "error")
    os.kill(datapath.pid, signal.SIGSTOP)
    try:
        with tiny_receive_buffers(datapath.pid):
            kernel_datapath.send(datapath, kernel_datapath.packets(PACKETS, first=10_000))
    finally:
        os.kill(datapath.pid, signal.SIGCONT)
    dropped = kernel_datapath.lost(datapath) - lost_before
    assert 0 < dropped <= PACKETS
    lines = tool.lines(dropped, UPCALL)
    summary = tool.rest(interrupt=True).splitlines()[-1]
    errors = {match[5] for line in lines if (match := UPCALL.match(line))}
    # netlink_attachskb() (net/netlink/af_netlink.c) finds no room and may not wait.
    assert errors == {"EAGAIN"}
    assert f"{dropped} dropped by the kernel (EAGAIN {dropped})" in summary


@pytest.fixture(scope="module")
def recording(datapath: Instance, tmp_path_factory: pytest.TempPathFactory) -> UpcallRecording:
    """The events of the packets, each of another flow."""
    path = tmp_path_factory.mktemp("cost") / "upcalls.cost"
    events = str(PACKETS * len(EVENT_TYPES))
    tool = Tool("upcall-cost", datapath.pid, "-w", str(path), "-s", events, "--sets")
    kernel_datapath.send(datapath, kernel_datapath.packets(PACKETS, first=20_000))
    output = tool.rest(interrupt=False)
    reported = commands.run("report", path, "--sets")
    assert reported.stdout == tool.header + output
    assert output.count("UupeE batch ") == PACKETS
    assert f"- Analyzing {PACKETS} event sets..." in output
    return read_upcalls(path)


def sets_of(recording: UpcallRecording) -> tuple[UpcallSet, ...]:
    return join(recording.events).sets


def test_each_packet_has_a_complete_set(recording: UpcallRecording) -> None:
    sets = sets_of(recording)
    assert len(sets) == PACKETS
    assert all(found.complete for found in sets)
    assert not any(recording.lost.values())


def test_each_set_is_of_one_packet(recording: UpcallRecording) -> None:
    for found in sets_of(recording):
        assert found.dp_upcall is not None
        assert found.flow_execute is not None
        assert found.packet_cmd_execute is not None
        packet = found.recv_upcall.packet
        assert found.dp_upcall.packet == packet
        assert found.flow_execute.packet == packet
        assert found.packet_cmd_execute.packet == packet
        assert found.dp_upcall.device == kernel_datapath.PORT


def test_the_total_is_the_sum_of_its_parts(recording: UpcallRecording) -> None:
    for found in sets_of(recording):
        costs = costs_of(found)
        parts = (
            costs.kernel_to_vswitchd_ns,
            costs.lookup_ns,
            costs.put_to_execute_ns,
            costs.execute_to_kernel_ns,
        )
        assert all(part is not None and part >= 0 for part in parts)
        assert costs.total_ns == sum(part for part in parts if part is not None)


def test_flows_have_the_ufids_and_rules_that_open_vswitch_says(
    datapath: Instance, tmp_path: Path
) -> None:
    path, frames = tmp_path / "upcalls.cost", kernel_datapath.packets(10, first=40_000)
    tool = Tool("upcall-cost", datapath.pid, "-w", str(path), *WHOLE, "--rules", "--sets")
    # It knows the rules of a flow once it has seen its second packet.
    kernel_datapath.send(datapath, frames, times=SENT)
    there = dumped(datapath)
    answers = {ufid: datapath.appctl("ofproto/detrace", f"ufid:{ufid}") for ufid in there}
    output = tool.rest(interrupt=True)

    found = [event for event in read_upcalls(path).events if isinstance(event, FlowPut)]
    assert len({put.ufid for put in found}) == len(frames)
    for put in found:
        port = re.search(r"udp\(src=\d+", format_key(put.key, put.key_len))
        assert port is not None
        assert port[0] in there[put.ufid]
        assert f"  flow ufid:{put.ufid}\n" in output
    ruled = [put for put in found if put.rules]
    assert ruled
    for put in ruled:
        assert without_counts(put.rules) == without_counts(rules_in(answers[put.ufid]))
        assert f"    {put.rules[0]}\n" in output


BPFTRACE = """
kprobe:ovs_dp_upcall { printf("enter %llu\\n", nsecs); }
kretprobe:ovs_dp_upcall { printf("leave %llu\\n", nsecs); }
kprobe:netlink_sendmsg /pid == TARGET/ { @send[tid] = nsecs; }
kretprobe:ovs_packet_cmd_execute /@send[tid]/ { printf("execute %llu %llu\\n", @send[tid], nsecs); }
BEGIN { printf("ready\\n"); }
"""


def test_the_times_are_those_that_bpftrace_sees(
    datapath: Instance, bpftrace_works: None, tmp_path: Path
) -> None:
    program = BPFTRACE.replace("TARGET", str(datapath.pid))
    bpftrace = subprocess.Popen(
        ["bpftrace", "-e", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    limit = threading.Timer(LIMIT_S, bpftrace.kill)
    limit.start()
    assert bpftrace.stdout is not None
    for line in bpftrace.stdout:
        if line == "ready\n":
            break
    else:
        limit.cancel()
        pytest.fail(f"bpftrace ended: {bpftrace.communicate()[1]}\n{program}")
    path = tmp_path / "upcalls.cost"
    events = str(PACKETS * len(EVENT_TYPES))
    tool = Tool("upcall-cost", datapath.pid, "-w", str(path), "-s", events)
    kernel_datapath.send(datapath, kernel_datapath.packets(PACKETS, first=30_000))
    tool.rest(interrupt=False)
    bpftrace.send_signal(signal.SIGINT)
    seen, _ = bpftrace.communicate()
    limit.cancel()
    found = read_upcalls(path).events
    entered, left = numbers(seen, "enter"), numbers(seen, "leave")
    upcalls = sorted(event.time_ns for event in found if isinstance(event, DpUpcall))
    assert len(entered) == len(left) == len(upcalls) == PACKETS
    # Packets come one after the other, so that their calls do not overlap.
    for (enter,), time_ns, (leave,) in zip(sorted(entered), upcalls, sorted(left), strict=True):
        assert enter <= time_ns <= leave
    executes = sorted(event.time_ns for event in found if isinstance(event, PacketCmdExecute))
    calls = numbers(seen, "execute")
    assert len(calls) == len(executes) == PACKETS
    for time_ns in executes:
        assert any(sent <= time_ns <= done for sent, done in calls)


def numbers(output: str, kind: str) -> list[tuple[int, ...]]:
    lines = (line.split() for line in output.splitlines())
    return [tuple(map(int, words[1:])) for words in lines if words and words[0] == kind]


@pytest.mark.parametrize("command", ["upcall-monitor", "upcall-cost"])
def test_userspace_datapath_is_reported_as_unseen_with_an_alternative(
    root_user: None, usdt_binaries: Binaries, command: str
) -> None:
    with Instance(usdt_binaries) as ovs, Traffic(ovs, rate=100, seconds=LASTS_S):
        argv = [sys.executable, "-m", "kernel_delay", command, "-p", str(ovs.pid)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline().startswith(("TIME ", "EVENT "))
        wait_until(lambda: upcalls_in_user_space(ovs) > 0, "an upcall in user space")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=LIMIT_S)
    notes = [line for line in errors.splitlines() if "datapath" in line]
    unloaded = " (the kernel module openvswitch is not loaded)"
    assert notes == [
        f"kernel-delay: process {ovs.pid} has no datapath in the kernel"
        + ("" if kernel_datapath.is_there() else unloaded)
        + ": upcalls of a userspace datapath (netdev) never pass the kernel and are not seen;"
        " measure with bridge-loop and capture, count with"
        " 'ovs-appctl dpif-netdev/pmd-stats-show' and 'upcall/show'"
    ]
    assert re.search("^(0 upcalls received|.*0 events)", output, re.MULTILINE)


@pytest.mark.parametrize("command", ["upcall-monitor", "upcall-cost"])
def test_netdev_without_probes_names_the_datapath_first(ovs: Instance, command: str) -> None:
    """With its probes or symbols these commands see nothing of it either."""
    done = commands.run(command, "--pid", ovs.pid)
    assert done.returncode == 66  # EX_NOINPUT
    assert done.stderr.count("\n") == 1
    assert f"process {ovs.pid} has no datapath in the kernel" in done.stderr
    assert "upcalls of a userspace datapath (netdev) never pass the kernel" in done.stderr
    assert "dbgsym" not in done.stderr
    assert "datapath-ops" not in done.stderr
