"""How an assistant with only a shell asks the server and the command line."""

import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.assistants import arms, client, command_line
from tests.assistants.answers import Exchange
from tests.recordings import record_samples
from tests.unit.samples import ACCOUNTED

pytestmark = pytest.mark.long

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    record_samples(folder / "r01.kdr", ACCOUNTED)
    return folder


def exchanges(path: Path) -> list[Exchange]:
    return msgspec.json.Decoder(Exchange).decode_lines(path.read_bytes())


def test_client_prints_and_notes_the_servers_answer(folder: Path, capsys: Printed) -> None:
    assert client.main([str(folder), "tools"]) == 0
    listed = capsys.readouterr().out
    assert "Read the VERDICT first" in listed
    assert '"summary"' in listed
    assert client.main([str(folder), "call", "report", '{"recording": "r01.kdr"}']) == 0
    reported = capsys.readouterr().out
    assert "VERDICT" in reported
    noted = exchanges(folder.parent / "transcript-client.jsonl")
    assert [each.recordings for each in noted] == [(), ("r01.kdr",)]
    assert noted[1].answer in reported


def test_error_of_a_tool_is_an_exit_status(folder: Path, capsys: Printed) -> None:
    assert client.main([str(folder), "call", "report", '{"recording": "/etc/passwd"}']) == 1
    assert "is not below a folder that is served" in capsys.readouterr().out


def test_command_line_reports_and_nothing_else(folder: Path, capsys: Printed) -> None:
    path = folder / "transcript"
    own = ["--transcript", str(path), str(folder)]
    assert command_line.main([*own, "report", "--summary", "r01.kdr"]) == 0
    assert "VERDICT" in capsys.readouterr().out
    (noted,) = exchanges(path)
    assert noted.recordings == ("r01.kdr",)
    assert "VERDICT" in noted.answer
    with pytest.raises(SystemExit):
        command_line.main([*own, "capture", "-p", "1"])


def test_each_arm_can_read_the_recordings(folder: Path) -> None:
    asks = {
        "with": ("call", "report", '{"recording": "r01.kdr"}'),
        "without": ("report", "r01.kdr"),
    }
    for arm in arms.prepare(folder):
        done = subprocess.run(["./ask", *asks[arm.name]], cwd=arm, capture_output=True, text=True)
        assert "VERDICT" in done.stdout, done.stderr
        (noted,) = exchanges(arm / "transcript.jsonl")
        assert noted.recordings == ("r01.kdr",)


def test_each_arm_has_its_own_question() -> None:
    with_server, without = (arms.question(heading) for _, heading in arms.ARMS.values())
    assert "SKILL.md" in with_server
    assert "SKILL" not in without
    assert "call" not in without.partition("## How to read them")[2]
    assert "`answers.json`" in with_server.partition("## How to read them")[0]
