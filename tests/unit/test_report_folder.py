"""`kernel-delay report` of a folder that `watch -o` wrote."""

import datetime
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.cli import main
from kernel_delay.model import Round
from kernel_delay.recording.directory import RecordingDirectory
from tests.recordings import header
from tests.unit.samples import START_TIME, TIMED_WINDOW_NS, bare_sample, timed_thread, window


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two rounds without a CPU, and one in the program between them."""
    records = RecordingDirectory(tmp_path / "rounds", header("watch"))
    for number, part in enumerate(("ready", "user", "ready"), 1):
        when = START_TIME + datetime.timedelta(seconds=number)
        sample = bare_sample(
            timed_thread(8, "main", **{part: TIMED_WINDOW_NS // 1_000_000}),
            window=replace(window(duration_ns=TIMED_WINDOW_NS), start_time=when),
        )
        records.add(judge(replace(sample, round=Round(8, "main", number))))
    return tmp_path / "rounds"


def test_each_record_has_a_line_and_each_cause_a_row(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder)]) == os.EX_OK
    *lines, _, head, worst, other = capsys.readouterr().out.rstrip().split("\n")
    assert [line.split("  ")[1] for line in lines] == ["main (8)"] * 3
    assert head.split() == ["RECORDS", "BY", "CAUSE", "COUNT", "LONGEST", "TOTAL"]
    assert worst.split()[:2] == ["cpu_contention", "2"]
    assert other.split()[:2] == ["user", "1"]


@pytest.mark.parametrize("option", [("--summary",), ("--json",), ("--html", "page.html")])
def test_other_forms_are_of_a_record(
    folder: Path, option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder), *option]) == os.EX_USAGE
    assert "is a folder, reported in lines" in capsys.readouterr().err


def test_a_damaged_record_is_named_and_the_others_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, _ = sorted(folder.iterdir())
    first.write_bytes(first.read_bytes()[:-20])
    second.write_bytes(b"")
    assert main(["report", str(folder)]) == os.EX_DATAERR
    captured = capsys.readouterr()
    assert [first.name in line for line in captured.err.splitlines()] == [True, False]
    assert second.name in captured.err
    # Of the first its end alone is missing.
    assert captured.out.count("  main (8)  ") == 2


def test_a_folder_without_records_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path)]) == os.EX_NOINPUT
    assert "has no recordings of rounds" in capsys.readouterr().err
