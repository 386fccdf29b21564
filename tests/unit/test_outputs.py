"""Outputs of what is read from files."""

import argparse
from pathlib import Path

import pytest

from kernel_delay.cli import main
from kernel_delay.commands.options.outputs import refuse_same_outputs
from tests.recordings import record_samples
from tests.unit.event_samples import WITH_EVENTS


@pytest.mark.parametrize(
    "command",
    [
        ["report", "--html", "a.kdr", "a.kdr"],
        ["report", "--html", "link", "a.kdr"],
        ["report", "--folded", "./a.kdr", "a.kdr"],
        ["report", "--perfetto", "a.kdr", "a.kdr"],
        ["report", "--flamegraph", "a.svg", "a.svg"],
        ["report", "-w", "a.kdr", "a.kdr"],
        ["compare", "--html", "a.kdr", "a.svg", "a.kdr@1-1"],
    ],
)
def test_what_is_read_is_not_written_over(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = record_samples(tmp_path / "a.kdr", WITH_EVENTS)
    before = recording.read_bytes()
    (tmp_path / "a.svg").write_bytes(before)
    (tmp_path / "link").symlink_to(recording)
    assert main(command) == 64
    assert "is an input: write to another file" in capsys.readouterr().err
    assert recording.read_bytes() == (tmp_path / "a.svg").read_bytes() == before


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["watch", "-o", ""], "-o/--output"),
        (["capture", "-o", ""], "-o/--output"),
        (["capture", "--html", ""], "--html"),
        (["capture", "--json="], "--json"),
        (["capture", "--folded", ""], "--folded"),
    ],
)
def test_output_of_no_name_is_refused(
    command: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a variable that is not set, it would be the current folder."""
    assert main(command) == 64
    assert f"{option}: must not be empty" in capsys.readouterr().err


HTML, PCAP = ["--html", "-"], ["-w", "-"]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["report", "a.kdr", *HTML], "--html"),
        (["fleet", "out", *HTML], "--html"),
        (["log", "a.log", *HTML], "--html"),
        (["compare", "a", "b", *HTML], "--html"),
        (["report", "a.kdr", *PCAP], "-w/--pcap"),
        (["upcall-monitor", *PCAP], "-w/--pcap"),
        (["datapath-ops", *PCAP], "-w/--pcap"),
    ],
)
def test_what_is_no_text_is_a_file(
    command: list[str],
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 64
    assert f"{option}: must be a file: stdout has the report" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "outputs",
    [
        ["--json", "x", "-o", "x"],
        ["--html", "x", "-o", "./x"],
        ["--json", "x", "--html", "link"],
    ],
)
def test_no_file_has_two_outputs(
    outputs: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("x")
    assert main(["revalidator", "-p", "1", *outputs]) == 64
    assert "is given for two outputs: name a file for each" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_device_may_have_two_outputs() -> None:
    refuse_same_outputs(argparse.Namespace(json_file="/dev/null", html=Path("/dev/null")))
