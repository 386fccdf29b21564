"""What is reported from a recording of upcalls is what was printed when they came."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from kernel_delay.cli import main
from kernel_delay.commands.options import target as target_options
from kernel_delay.host.target import ProcessTarget
from kernel_delay.loader import waiting
from kernel_delay.monitors.upcalls import probe
from kernel_delay.monitors.upcalls.events import DpUpcall, Event, PortName
from kernel_delay.recording.reader import open_recording
from tests.unit.upcall_trips import World

MISSED = {"recv_upcall": 2}

Run = Callable[..., tuple[str, str]]


class Source:
    """Stands in for the programs: the same upcalls each time, in three rounds."""

    def __init__(self, *arguments: object) -> None:
        events, _trips = World(seed=1).run([3, 5, 40])
        first = next(event for event in events if isinstance(event, DpUpcall))
        ports = [PortName(first.datapath, first.in_port or 0, "tap\x1b0")]
        self.notes = ["which upcalls the kernel drops is not seen"]
        self._rounds: list[list[Event | PortName]] = [[*ports, *events[:7]], [], [*events[7:]]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def take(self) -> Iterator[Event | PortName]:
        yield from self._rounds.pop(0)

    def rest(self) -> Iterator[Event | PortName]:
        yield from ()

    def missed(self) -> dict[str, int]:
        return MISSED


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the Source; what it printed."""
    target = ProcessTarget(27090, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd")
    monkeypatch.setattr(target_options, "find_to_measure", lambda args: target)
    monkeypatch.setattr(probe, "UpcallProbes", Source)
    monkeypatch.setattr(waiting, "watch", lambda pid: contextlib.nullcontext())
    monkeypatch.setattr(waiting, "watch", lambda pid: contextlib.nullcontext())
    monkeypatch.setattr(waiting, "looks", lambda waiter, duration: iter([None, None, "exit"]))

    def run(*arguments: object) -> tuple[str, str]:
        assert main(list(map(str, arguments))) == 0
        return capsys.readouterr()

    return run


@pytest.mark.parametrize(
    "options",
    [(), ("-d", "hex", "-k", "decode"), ("-k", "nlraw", "-r", "ok"), ("-r", "error")],
)
def test_upcall_monitor(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    path, pcap = tmp_path / "a.kdr", tmp_path / "a.pcapng"
    live = run("upcall-monitor", "-o", path, "-w", pcap, *options)
    packets = pcap.read_bytes()
    reported = run("report", path, "-w", pcap, "--overwrite", *options)
    assert reported[0] == live[0]
    assert "2 events missed" in live[0]
    assert pcap.read_bytes() == packets
    assert reported[1] == "kernel-delay: which upcalls the kernel drops is not seen\n"
    with open_recording(path) as recording:
        assert list(recording.read())
        assert recording.trailer is not None
        assert (recording.trailer.ended, recording.trailer.lost) == ("exit", MISSED)


def test_packets_of_a_file_have_their_keys_as_comments(run: Run, tmp_path: Path) -> None:
    path, pcap, plain = (tmp_path / name for name in ("a.kdr", "a.pcapng", "plain.pcapng"))
    printed = run("upcall-monitor", "-o", path, "-w", pcap, "-k", "decode")[0]
    keys = re.findall(r"^    (recirc_id\(.*)$", printed, re.MULTILINE)
    assert keys
    packets = pcap.read_bytes()
    assert packets.count(b"recirc_id(") == len(keys)
    assert all(key.encode() in packets for key in keys)
    run("report", path, "-w", plain)
    assert b"recirc_id(" not in plain.read_bytes()


@pytest.mark.parametrize("options", [(), ("-q", "--sets", "-b", "3"), ("--handler-filter", "x")])
@pytest.mark.parametrize("name", ["a.kdr", "a.jsonl"])
def test_upcall_cost(run: Run, tmp_path: Path, options: tuple[str, ...], name: str) -> None:
    path = tmp_path / name
    live = run("upcall-cost", "-w", path, *options)[0]
    assert run("report", path, *options)[0] == live
    read = run("upcall-cost", "-r", path, *options)[0]
    assert read.partition("\n")[2] == live
    assert f"[{MISSED['recv_upcall']:>10}]" in live


def lines_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize(
    ("options", "received", "dropped"),
    [((), 48, 48), (("-r", "ok"), 48, 0), (("-r", "error"), 0, 48)],
)
def test_upcall_monitor_in_json(
    run: Run, tmp_path: Path, options: tuple[str, ...], received: int, dropped: int
) -> None:
    path, file = tmp_path / "a.kdr", tmp_path / "a.json"
    live, reported = run("upcall-monitor", "-o", path, "--json", *options)
    assert "2 events missed" in reported
    upcalls = lines_of(live)
    keys = [upcall["key"] for upcall in upcalls]
    assert (len(keys), keys.count(None)) == (received + dropped, dropped)
    assert run("report", path, "--json", *options)[0] == live
    text = run("upcall-monitor", "--json", file, *options)[0]
    assert file.read_text() == live
    assert text == run("report", path, *options)[0]


def test_upcall_cost_in_json(run: Run, tmp_path: Path) -> None:
    path, file = tmp_path / "a.kdr", tmp_path / "a.json"
    live, reported = run("upcall-cost", "-o", path, "--json")
    assert "2 events were missed" in reported
    upcalls = lines_of(live)
    assert len(upcalls) == 48
    for upcall in upcalls:
        times = upcall["times_ns"]
        assert upcall["kernel_to_vswitchd_ns"] == times["recv_upcall"] - times["dp_upcall"]
        complete = None not in times.values()
        assert (upcall["overhead_ns"] is not None) == complete
    assert run("report", path, "--json")[0] == live
    assert run("upcall-cost", "-r", path, "--json")[0] == live
    text = run("upcall-cost", "-q", "--json", file)[0]
    assert file.read_text() == live
    assert text == run("report", path, "-q")[0]


def test_json_never_goes_over_the_file_that_is_read(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.kdr"
    run("upcall-cost", "-o", path)
    before = path.read_bytes()
    assert main(["upcall-cost", "-r", str(path), "--json", str(path)]) == 64  # EX_USAGE
    assert "is an input: write to another file" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_upcall_cost_stops_after_so_many(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.kdr"
    live = run("upcall-cost", "-o", path, "-s", 9)[0]
    assert "(9 events)" in live
    assert run("report", path)[0] == live
    with open_recording(path) as recording:
        assert list(recording.read())
        assert recording.trailer is not None
        assert (recording.trailer.ended, recording.trailer.events) == ("done", 9)
