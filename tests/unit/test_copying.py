"""`report -o`: a recording written anew has what was read, and is as whole as that."""

import os
from pathlib import Path

import pytest

from kernel_delay.cli import main
from kernel_delay.model import MeasuringCommand, SkippedWindow
from kernel_delay.recording.reader import FORMATS, open_recording
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import HEADER, header, record_samples
from tests.unit.event_recordings import EVENT_COMMANDS, record_events
from tests.unit.event_samples import WITH_EVENTS
from tests.unit.samples import ACCOUNTED
from tests.unit.timeline_samples import WITH_TIMELINE


@pytest.fixture(autouse=True)
def _own_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """What the command line may put a buffer behind."""


def written(path: Path, *, redact: bool = False) -> bytes:
    """A recording with all that there is for one."""
    with RecordingWriter(path, HEADER, redact=redact) as writer:
        writer.note("at compute-1")
        for sample in (WITH_EVENTS, WITH_TIMELINE, ACCOUNTED):
            writer.sample(sample)
        writer.skipped(SkippedWindow(ACCOUNTED.window))
        writer.finish("interrupt", {"events": 3})
    return path.read_bytes()


@pytest.mark.parametrize("suffix", [".kdr", ".jsonl"])
@pytest.mark.parametrize("other", [".kdr", ".jsonl"])
def test_a_recording_is_written_again(tmp_path: Path, suffix: str, other: str) -> None:
    path, copy = tmp_path / f"a{suffix}", tmp_path / f"copy{other}"
    written(path)
    assert main(["report", str(path), "-o", str(copy)]) == 0
    assert copy.read_bytes() == written(tmp_path / f"same{other}")


def test_a_copy_can_be_redacted(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.kdr", tmp_path / "copy.jsonl"
    written(path)
    assert main(["report", "--redact", str(path), "-o", str(copy)]) == 0
    assert b"compute-1" not in copy.read_bytes()
    assert copy.read_bytes() == written(tmp_path / "same.jsonl", redact=True)


@pytest.mark.parametrize("command", EVENT_COMMANDS)
def test_events_are_written_again(tmp_path: Path, command: MeasuringCommand) -> None:
    path, copy = record_events(tmp_path / "a.kdr", command), tmp_path / "copy.kdr"
    assert main(["report", str(path), "-o", str(copy)]) == 0
    assert copy.read_bytes() == path.read_bytes()


def test_a_copy_of_what_was_cut_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, copy = record_samples(tmp_path / "a.jsonl", ACCOUNTED), tmp_path / "copy.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert main(["report", str(path), "-o", str(copy)]) == os.EX_DATAERR
    assert "'a.jsonl' was cut".replace("a.jsonl", str(path)) in capsys.readouterr().err
    assert main(["report", "--summary", str(copy)]) == os.EX_DATAERR
    assert "was cut" in capsys.readouterr().err


def test_a_copy_has_the_newest_format(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.kdr", tmp_path / "copy.kdr"
    with RecordingWriter(path, header("capture", format=FORMATS[-1])) as writer:
        writer.sample(ACCOUNTED)
        writer.finish("done")
    assert main(["report", str(path), "-o", str(copy)]) == 0
    with open_recording(copy) as recording:
        assert recording.header.format == FORMATS[0]


@pytest.mark.parametrize("options", [("--json",), ("--header",), ("--html", "a.html"), ("b.kdr",)])
def test_a_copy_is_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    path, copy = record_samples(tmp_path / "a.kdr", ACCOUNTED), tmp_path / "copy.kdr"
    assert main(["report", "-o", str(copy), str(path), *options]) == os.EX_USAGE
    assert "give one FILE, and -o alone" in capsys.readouterr().err
    assert not copy.exists()
    assert main(["report", str(path), "-o", str(path)]) == os.EX_USAGE
    assert "is an input" in capsys.readouterr().err
