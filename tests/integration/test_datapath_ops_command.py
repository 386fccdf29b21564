"""`kernel-delay datapath-ops`: what a real Open vSwitch asks of the kernel's datapath."""

import errno
import struct
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import Struct

import kernel_delay
from kernel_delay.host.netlink import walk
from kernel_delay.monitors.datapath_ops.events import Operation, OperationEvent
from kernel_delay.monitors.datapath_ops.probe import LARGEST_EVENT, Joining
from kernel_delay.openvswitch.programs import OvsPrograms
from lab.instance import Instance, OvsCommandError
from tests import commands
from tests.integration import kernel_datapath
from tests.integration.datapath_double import attribute
from tests.integration.json_follower import JsonFollower
from tests.integration.kernel_datapath import packets, send
from tests.integration.test_flows_command import dumped, short_matches, until_there
from tests.workload import sleeping

PACKETS = 10
HEADERS = 24  # of netlink, of generic netlink, and of the datapath
DATAPATH = "system@ovs-system"
FLOW = "recirc_id(0),in_port(1),eth(),eth_type(0x1234)"
ANOTHER = "recirc_id(0),in_port(1),eth(),eth_type(0x4321)"


class Sent(Struct):
    """Of what was sent back, the same."""

    ufid: str | None
    actions: str | None
    packets: int


class Line(Struct):
    """Of a line of JSON, what the tests look at."""

    operation: Operation
    answer: str
    error: int
    duration_ns: int | None
    ufid: str | None
    match: str | None
    actions: str | None
    packet_len: int | None
    packet: str | None
    flags: str
    reply: Sent | None


def following(ovs: Instance, folder: Path, *options: str) -> JsonFollower[Line]:
    return JsonFollower(folder, Line, "datapath-ops", "-p", ovs.pid, *options)


class Asked(NamedTuple):
    """A request that a program of ours sends: the command and its attributes."""

    command: int
    attributes: bytes
    flags: int = 0
    datapath: int | None = None


NEW, DELETE, GET, SET = 1, 2, 3, 4
ECHO, CREATE, EXCLUSIVE = 0x8, 0x400, 0x200
# Sends requests to the family ovs_flow, each as a line of flags, command, datapath and attributes.
# Prints the request, what came back, and the answer's error.
_ASK = """
import itertools, socket, struct, sys
REQUEST, ACK, ERROR, CONTROL = 1, 4, 2, 16
sender = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
sender.bind((0, 0))
sequence = itertools.count(1)
def ask(kind, flags, body):
    head = struct.pack("=IHHII", 16 + len(body), kind, REQUEST | ACK | flags, next(sequence), 0)
    request = head + body
    sender.send(request)
    back = b""
    while True:
        data = sender.recv(1 << 20)
        if struct.unpack_from("=H", data, 4)[0] == ERROR:
            return request, back, -struct.unpack_from("=i", data, 16)[0]
        back = data
name = b"ovs_flow\\0"
asked = struct.pack("=BBHHH", 3, 1, 0, 4 + len(name), 2) + name + bytes(-len(name) % 4)
family = ask(CONTROL, 0, asked)[1][20:]
while struct.unpack_from("=H", family, 2)[0] != 1:
    family = family[struct.unpack_from("=H", family)[0] + 3 & ~3:]
family = struct.unpack_from("=H", family, 4)[0]
own = socket.if_nametoindex("ovs-system")
for line in sys.stdin:
    flags, command, datapath, attributes = line.split(",")
    head = struct.pack("=BBHi", int(command), 1, 0, int(datapath) or own)
    request, back, error = ask(family, int(flags), head + bytes.fromhex(attributes))
    print(request.hex(), back.hex(), error, sep=",", flush=True)
"""


class Asker:
    """Runs it beside ovs-vswitchd, and knows what it was answered."""

    def __init__(self, ovs: Instance) -> None:
        network = f"--net=/proc/{ovs.pid}/ns/net"
        pipe = subprocess.PIPE
        command = ["nsenter", network, sys.executable, "-c", _ASK]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def ask(self, asked: Asked) -> tuple[bytes, bytes, int]:
        """The request's bytes, what was sent back, and the error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        fields = (asked.flags, asked.command, asked.datapath or 0, asked.attributes.hex())
        print(*fields, sep=",", file=self.process.stdin, flush=True)
        request, back, error = self.process.stdout.readline().split(",")
        return bytes.fromhex(request), bytes.fromhex(back), int(error)


def of(lines: Iterable[Line], operation: Operation) -> list[Line]:
    return [line for line in lines if line.operation == operation]


def refused(ovs: Instance, *command: str) -> None:
    with pytest.raises(OvsCommandError):
        ovs.appctl(*command)


def written_anew(message: bytes) -> bytes:
    """The message from what was decoded of it; flags of an attribute's type are not."""
    data = message[:HEADERS]
    for each in walk(message[HEADERS:]).found:
        (kind,) = struct.unpack_from("=H", message, len(data) + 2)
        padding = bytes(-len(each.payload) % 4)
        data += struct.pack("=HH", each.length, kind & ~0x3FFF | each.type) + each.payload + padding
    return data


def test_each_operation_and_its_answer(datapath: Instance, tmp_path: Path) -> None:
    path = tmp_path / "operations.kdr"
    datapath.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=3600000")
    datapath.appctl("revalidator/purge")
    until_there(datapath, 0)
    try:
        with following(datapath, tmp_path, "-o", str(path)) as follower:
            send(datapath, packets(PACKETS))
            until_there(datapath, PACKETS)
            made = of(
                follower.until(lambda lines: len(of(lines, "flow_new")) >= PACKETS), "flow_new"
            )
            there, written = dumped(datapath), short_matches(datapath)
            assert {line.ufid for line in made} == there.keys()
            assert sorted(line.match or "" for line in made) == written
            assert {line.answer for line in made} == {"ok"}

            # What is there already, and what is not.
            so_far = len(follower.seen())
            datapath.appctl("revalidator/pause")  # which would delete what it does not know
            datapath.appctl("dpctl/add-flow", DATAPATH, FLOW, "2")
            refused(datapath, "dpctl/add-flow", DATAPATH, FLOW, "2")
            datapath.appctl("dpctl/del-flow", DATAPATH, FLOW)
            refused(datapath, "dpctl/del-flow", DATAPATH, FLOW)
            refused(datapath, "dpctl/mod-flow", DATAPATH, ANOTHER, "2")
            datapath.appctl("revalidator/resume")
            asked = follower.until(lambda lines: len(lines) >= 5, so_far)
            answers = [(line.operation, line.answer) for line in asked if line.answer != "ok"]
            assert answers == [
                ("flow_new", "EEXIST"),
                ("flow_del", "ENOENT"),
                ("flow_set", "ENOENT"),
            ]

            so_far = len(follower.seen())
            datapath.appctl("revalidator/purge")
            gone = follower.until(lambda lines: len(of(lines, "flow_del")) >= PACKETS, so_far)
            assert {line.ufid for line in of(gone, "flow_del")} == there.keys()
            seen = follower.seen()
    finally:
        datapath.vsctl("remove", "Open_vSwitch", ".", "other_config", "max-idle")

    # A revalidator wants the counts of the flow that it deletes.
    assert {line.reply.packets for line in of(gone, "flow_del") if line.reply} == {0}
    executed = of(seen, "packet_execute")
    assert sorted({(line.packet or "").rpartition("udp(")[2] for line in executed}) == sorted(
        f"src={1024 + number},dst=9)" for number in range(PACKETS)
    )
    assert [line.packet_len for line in executed] == [60] * PACKETS
    # What was executed is what the flow that was made for it then does.
    assert {line.actions for line in executed} == {line.actions for line in made}
    assert all(line.duration_ns and line.duration_ns > 0 for line in seen)

    events = list(kernel_delay.open_recording(path).events())
    assert len(events) == len(seen)
    for event in events:
        assert isinstance(event, OperationEvent)
        assert not event.is_cut
        assert written_anew(event.message) == event.message
    live = (tmp_path / "stdout").read_text()
    assert commands.run("report", path, "--json").stdout == live
    check_reports(path, tmp_path / "packets.pcapng")


def check_reports(path: Path, pcap: Path) -> None:
    text = commands.run("report", path, "-w", pcap)
    assert (text.returncode, text.stderr) == (0, "")
    assert "EEXIST 1 (File exists)" in text.stdout
    assert pcap.stat().st_size > PACKETS * 60
    failed = commands.run("report", path, "-q", "--answer", "error").stdout
    assert "operations that were not asked for are not among them" in failed
    assert "packet_execute" not in failed
    deleted = commands.run("report", path, "-q", "--operation", "flow_del,flow_get").stdout
    assert [line.split()[0] for line in deleted.splitlines()[1:3]] == ["flow_del", "ENOENT"]
    wrong = commands.run("report", path, "--operation", "put")
    assert wrong.returncode == 64  # EX_USAGE
    assert "flow_new, flow_set" in wrong.stderr
    layers = commands.run("report", path, "-d", "decode", "--operation", "packet_execute").stdout
    assert layers.count("###[ UDP ]###") == PACKETS
    some = commands.run("report", path, "-q", "-l", "udp(src=1024)").stdout
    # It was made and executed; a deletion is by UFID alone.
    assert [line.split()[:2] for line in some.splitlines()[1:3]] == [
        ["flow_new", "1"],
        ["packet_execute", "1"],
    ]


UFID = attribute(9, bytes(range(16)))
KEY = attribute(
    1,
    attribute(3, struct.pack("=I", 1)) + attribute(4, bytes(12)) + attribute(6, b"\x12\x34"),
)
OUTPUTS = 2000
LONG = attribute(2, attribute(1, struct.pack("=I", 0)) * OUTPUTS)
NO_DATAPATH = 0x7FFF0000
ASKED = (
    (Asked(NEW, KEY + UFID + LONG, CREATE | EXCLUSIVE | ECHO), 0),
    (Asked(NEW, KEY + UFID + LONG, CREATE | EXCLUSIVE), errno.EEXIST),
    (Asked(GET, UFID, ECHO), 0),
    (Asked(SET, KEY + UFID + attribute(2, b""), ECHO), 0),
    (Asked(DELETE, UFID, ECHO), 0),
    (Asked(DELETE, UFID), errno.ENOENT),
    (Asked(GET, UFID), errno.ENOENT),
    (Asked(SET, KEY + UFID + attribute(2, b"")), errno.ENOENT),
    (Asked(NEW, KEY + UFID + LONG, CREATE, NO_DATAPATH), errno.ENODEV),
    (Asked(NEW, KEY + UFID, CREATE), errno.EINVAL),
)


def test_reported_operations_match_what_was_sent_and_replied(
    datapath: Instance, tmp_path: Path
) -> None:
    path = tmp_path / "asked.kdr"
    asker = Asker(datapath)
    datapath.appctl("revalidator/pause")  # which would delete what it does not know
    try:
        options = ("datapath-ops", "-p", asker.process.pid, "-o", str(path))
        with JsonFollower(tmp_path, Line, *options) as follower:
            answers = [asker.ask(asked) for asked, _ in ASKED]
            lines = follower.until(lambda found: len(found) >= len(ASKED))
    finally:
        datapath.appctl("revalidator/resume")
        asker.process.kill()
        asker.process.wait()
    assert [error for _, _, error in answers] == [error for _, error in ASKED]
    events = list(kernel_delay.open_recording(path).events())
    found = [
        (event.message, event.reply, event.error)
        for event in events
        if isinstance(event, OperationEvent)
    ]
    assert found == answers
    assert all(written_anew(request) == request for request, _, _ in answers)
    assert lines[0].actions == ",".join(["0"] * OUTPUTS)
    assert [line.reply is not None for line in lines] == [bool(back) for _, back, _ in answers]
    assert lines[2].reply is not None
    assert lines[2].reply.actions == lines[0].actions


def test_an_end_is_paired_with_its_own_begin_alone(datapath: Instance) -> None:
    asker = Asker(datapath)
    with OvsPrograms("datapath_ops", asker.process.pid, 1 << 20, LARGEST_EVENT) as programs:
        programs.load()
        # Of the first request the end is missed, of the second one the begin.
        with closing(programs.object.program("on_flow_get").attach()):
            asker.ask(Asked(GET, UFID))
        with closing(programs.object.program("on_flow_get_exit").attach()):
            request, _, error = asker.ask(Asked(GET, UFID))
        found = list(Joining().operations(programs.all_records()))
    asker.process.kill()
    asker.process.wait()
    assert [(each.message, each.error) for each in found] == [(request, error)]
    assert found[0].duration_ns is None


def test_without_the_kernels_datapath_it_says_what_there_is(root_user: None) -> None:
    if kernel_datapath.is_there():
        pytest.skip("the kernel module openvswitch is loaded")
    with sleeping() as sleeper:
        done = commands.run("datapath-ops", "-p", sleeper.pid)
    assert done.returncode == 69  # EX_UNAVAILABLE
    assert done.stderr.count("\n") == 1
    assert "the kernel module openvswitch is not loaded" in done.stderr
    assert "has no datapath in the kernel" in done.stderr
    assert "'ovs-appctl dpctl/dump-flows' lists its flows" in done.stderr
