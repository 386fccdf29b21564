"""Events as Open vSwitch's upcall_cost.py writes them, read as what they are."""

from pathlib import Path

import pytest

from kernel_delay.cli import main
from kernel_delay.monitors.upcalls.events import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)
from kernel_delay.monitors.upcalls.join import join
from kernel_delay.monitors.upcalls.script_events import ScriptEvents
from tests.unit.upcall_trips import World

# The script's own: of its arrays, and of its enum.
PACKET_BYTES, KEY_BYTES = 256, 1024
KINDS: dict[type[Event], int] = {
    RecvUpcall: 0,
    DpUpcall: 1,
    FlowPut: 2,
    FlowExecute: 3,
    PacketCmdExecute: 4,
}
DEVICES = {f"port{number}": number for number in range(64)}


def event_line(event: Event) -> str:
    """The line of an event, as event_to_dict() makes it; what the script does not set is 0xaa."""
    packet, packet_len, linear_len, datapath, device = b"", 0xAAAA, 0xAAAA, b"", b""
    key, key_len = b"", 0xAAAA
    match event:
        case DpUpcall():
            packet, packet_len = event.packet, event.packet_len
            linear_len = 0 if event.linear_len == packet_len else event.linear_len
            datapath, device = event.datapath.encode(), f"port{event.in_port}".encode()
        case RecvUpcall():
            packet, packet_len = event.packet, event.packet_len
            key, key_len, datapath = event.key, event.key_len, event.datapath.encode()
        case FlowExecute():
            packet, packet_len = event.packet, event.packet_len
    fields = {
        "event": KINDS[type(event)],
        "cpu": event.cpu,
        "pid": event.tid,
        "upcall_type": 0,
        "ts": event.time_ns,
        "pkt_frag_size": linear_len,
        "pkt_size": packet_len,
        "key_size": key_len,
        "comm": event.comm.encode(),
        "dpif_name": datapath,
        "dev_name": device,
        "pkt": packet.ljust(PACKET_BYTES, b"\xaa"),
        "key": key.ljust(KEY_BYTES, b"\xaa"),
    }
    return f"event = {fields}\n"


def written(path: Path, events: list[Event], *more: str) -> Path:
    datapaths = {event.datapath for event in events if isinstance(event, DpUpcall)}
    ports = f"dp_port_map = {dict.fromkeys(datapaths, DEVICES)}\n"
    path.write_text("".join([ports, *map(event_line, events), *more]))
    return path


def test_its_events_join_as_ours_do(tmp_path: Path) -> None:
    events, _ = World(seed=3, keys=False).run([3, 5, 8, 21])
    with ScriptEvents(written(tmp_path / "a", events, "event_miss = {0: 2, 4: 1}\n")) as source:
        read = list(source)
        assert source.missed == {"recv_upcall": 2, "packet_cmd_execute": 1}
        assert source.unknown_ports == 0
    ours, theirs = join(events), join(read)
    assert len(theirs.sets) == len(ours.sets) == 37
    assert theirs.batch_sizes == ours.batch_sizes
    assert [[each.time_ns for each in found.events] for found in theirs.sets] == [
        [each.time_ns for each in found.events] for found in ours.sets
    ]


def test_the_command_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events, _ = World(seed=3, keys=False).run([3, 5])
    path = written(tmp_path / "a", events)
    assert main(["upcall-cost", "-r", str(path)]) == 0
    output = capsys.readouterr().out
    assert "of upcall_cost.py" in output
    assert "- Analyzing 8 event sets..." in output


@pytest.mark.parametrize(
    "line",
    [
        "event = {'event': 0",
        "event = __import__('os').abort()\n",
        "event = {}\n",
        "event = " + "(" * 100_000,
        "event_miss = {9: 1}\n",
        "something else\n",
    ],
)
def test_a_line_that_it_did_not_write_is_reported(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, _ = World(seed=3, keys=False).run([3])
    path = written(tmp_path / "a", events, line)
    assert main(["upcall-cost", "-q", "-r", str(path)]) == 65
    output = capsys.readouterr()
    assert f"line {len(events) + 2} of " in output.err
    assert "- Analyzing 3 event sets..." in output.out


def test_ports_that_it_did_not_know_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, _ = World(seed=3, keys=False).run([3])
    path = written(tmp_path / "a", events)
    _, _, rest = path.read_text().partition("\n")
    path.write_text("dp_port_map = {}\n" + rest)
    assert main(["upcall-cost", "-q", "-r", str(path)]) == 0
    assert "the script did not know the port" in capsys.readouterr().err
