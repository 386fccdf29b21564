"""Which flows are asked for, and what is refused."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from kernel_delay.cli import main
from kernel_delay.monitors.flows.events import FlowEvent, FlowEvents
from kernel_delay.recording.redaction import redacted
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import header
from tests.unit.test_flows import DELETED

UFID = "2d438e70-1d12-472d-a0cc-a7c89487a0fa"
EVENTS = (
    structs.replace(DELETED, reason="purge", reason_number=7, ufid=UFID),
    structs.replace(DELETED, reason="flow_idle", reason_number=3),
    structs.replace(DELETED, reason=None, reason_number=7),
    structs.replace(DELETED, reason=None, reason_number=13),
    structs.replace(DELETED, change="modify", reason=None, reason_number=0),
)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "flows.kdr"
    with RecordingWriter(path, header("flows")) as writer:
        writer.events(FlowEvents(EVENTS, 0))
        writer.finish("interrupt", {})
    return path


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ("--reason=7", (EVENTS[0], EVENTS[2])),
        ("--reason=purge", (EVENTS[0],)),
        ("--reason=PURGE, 13", (EVENTS[0], EVENTS[3])),
        ("--reason=3,13", (EVENTS[1], EVENTS[3])),
        ("--reason=unknown reason 13,3", (EVENTS[1], EVENTS[3])),
        ("--reason=0", ()),
        ("--ufid=2D438e70-1d", (EVENTS[0],)),
        (f"--ufid=ufid:{UFID}", (EVENTS[0],)),
    ],
)
def test_events_that_are_asked_for_are_shown(
    recording: Path, option: str, shown: tuple[FlowEvent, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(recording), "--json", option]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    found = [(line["ufid"], line["reason"], line["reason_number"]) for line in lines]
    assert found == [(event.ufid, event.reason, event.reason_number) for event in shown]


def test_what_was_cut_is_reported_with_what_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "flows.kdr"
    whole, long, longer = (structs.replace(DELETED, key_len=n) for n in (len(DELETED.key), 300, 9))
    longer = structs.replace(longer, mask=DELETED.mask[:8], mask_len=388)
    with RecordingWriter(path, header("flows")) as writer:
        writer.events(FlowEvents((whole, long, longer), 0))
        writer.finish("interrupt", {})
    reported = (
        "2 events have a part of the key or mask only, and of the rest no filter knows:"
        " -f 388 takes all\n"
    )
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out.endswith(reported)
    assert main(["report", str(path), "--json"]) == 0
    assert capsys.readouterr().err == f"kernel-delay: {reported}"
    assert main(["report", str(path), "-l", "in_port(77)"]) == 0
    assert "takes all" not in capsys.readouterr().out
    # A key that was hidden was captured.
    with RecordingWriter(tmp_path / "hidden.kdr", header("flows")) as writer:
        writer.events(redacted(FlowEvents((whole,), 0)))
        writer.finish("interrupt", {})
    assert main(["report", str(tmp_path / "hidden.kdr")]) == 0
    assert "takes all" not in capsys.readouterr().out


@pytest.mark.parametrize("ufid", ["", "zzz", "ufid:", "2d438e701", "2d438e70-1d12x", f"{UFID}0"])
@pytest.mark.parametrize("command", ["flows", "datapath-ops"])
def test_what_no_ufid_begins_with_is_refused(
    command: str, ufid: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--ufid", ufid]) == 64  # EX_USAGE
    reported = capsys.readouterr().err
    assert f"argument --ufid: must be a UFID or its beginning, not {ufid!r}" in reported
    assert reported.count("\n") == 1


@pytest.mark.parametrize(
    "reason", ["sloth", "", "-1", "unknown reason", "unknown reason x", "purge,", "9" * 5000]
)
def test_what_is_no_reason_is_refused(
    recording: Path, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(recording), f"--reason={reason}"]) == 64
    reported = capsys.readouterr().err
    assert "there is no reason" in reported
    assert reported.count("\n") == 1
