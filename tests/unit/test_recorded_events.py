"""What is reported from a recording of Open vSwitch's events is what was printed when they came.

Those of upcalls are in test_recorded_upcalls.py.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from kernel_delay.cli import main
from kernel_delay.commands.options import target as target_options
from kernel_delay.host.target import ProcessTarget
from kernel_delay.loader import waiting
from kernel_delay.monitors.bridge_loop import probe as loop_probe
from kernel_delay.monitors.datapath_ops import probe as operation_probe
from kernel_delay.monitors.flows import probe as flow_probe
from kernel_delay.monitors.revalidator import probe as revalidator_probe
from tests.unit.event_recordings import CHANGES, LOST, OPERATIONS, PASSES, ROUNDS

NOTE = "which flows there were before is not seen"

Run = Callable[..., "tuple[str, str]"]


def source_of(found: list[Any]) -> type:
    """What stands in for the programs: it sees the same each time, in three rounds."""

    class Source:
        notes = (NOTE,)

        def __init__(self, *arguments: object, **options: object) -> None:
            self._rounds = [found[:2], [], found[2:]]

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def take(self) -> Iterator[Any]:
            yield from self._rounds.pop(0)

        def rest(self) -> Iterator[Any]:
            yield from ()

        def flows_before(self) -> int:
            return 7 - len(self._rounds)

        def missed(self) -> dict[str, int]:
            return LOST

    return Source


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on such a source; what it printed."""
    target = ProcessTarget(27090, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd")
    monkeypatch.setattr(target_options, "find_to_measure", lambda args: target)
    monkeypatch.setattr(loop_probe, "LoopProbes", source_of(PASSES))
    monkeypatch.setattr(revalidator_probe, "RevalidatorProbes", source_of(ROUNDS))
    monkeypatch.setattr(flow_probe, "FlowProbes", source_of(CHANGES))
    monkeypatch.setattr(operation_probe, "OperationProbes", source_of(OPERATIONS))
    monkeypatch.setattr(waiting, "watch", lambda pid: contextlib.nullcontext())
    monkeypatch.setattr(waiting, "watch", lambda pid: contextlib.nullcontext())
    monkeypatch.setattr(waiting, "looks", lambda waiter, duration: iter([None, None, "exit"]))

    def run(*arguments: object) -> tuple[str, str]:
        assert main(list(map(str, arguments))) == 0
        return capsys.readouterr()

    return run


# Of what is live alone, -k is the short form of --flow-keys.
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("bridge-loop", ()),
        ("bridge-loop", ("--quiet",)),
        ("bridge-loop", ("--log2",)),
        ("bridge-loop", ("--json",)),
        ("revalidator", ()),
        ("revalidator", ("--quiet",)),
        ("revalidator", ("--compress-output",)),
        ("revalidator", ("--json",)),
        ("flows", ()),
        ("flows", ("--quiet",)),
        ("flows", ("--flow-keys",)),
        ("flows", ("--reason", "flow_idle")),
        ("flows", ("--filter-flows", "eth_type(0x800)")),
        ("flows", ("--json",)),
        ("datapath-ops", ()),
        ("datapath-ops", ("--quiet",)),
        ("datapath-ops", ("--packet-decode", "hex")),
        ("datapath-ops", ("--packet-decode", "decode", "--operation", "packet_execute")),
        ("datapath-ops", ("--answer", "error")),
        ("datapath-ops", ("--json",)),
    ],
)
@pytest.mark.parametrize("name", ["a.kdr", "a.jsonl"])
def test_a_report_is_what_was_printed(
    run: Run, tmp_path: Path, name: str, command: str, options: tuple[str, ...]
) -> None:
    path = tmp_path / name
    live, messages = run(command, "-o", path, *options)
    assert live
    assert "\x1b" not in live
    reported = run("report", path, *options)
    assert reported[0] == live
    # Of a recording the notes are told too, but not what it was that went on.
    said, *lost = reported[1].splitlines()
    assert said == f"kernel-delay: {NOTE}"
    assert {said, *lost} < set(messages.splitlines())
    # What was lost is in the text, or beside the JSON.
    assert bool(lost) == ("--json" in options)


def test_packets_of_operations_are_the_same(run: Run, tmp_path: Path) -> None:
    path, pcap = tmp_path / "a.kdr", tmp_path / "a.pcapng"
    run("datapath-ops", "-o", path, "-w", pcap)
    packets = pcap.read_bytes()
    assert len(packets) > 60
    run("report", path, "-w", pcap, "--overwrite")
    assert pcap.read_bytes() == packets
