"""`kernel-delay log`: what it prints, writes and refuses."""

import json
import os
from pathlib import Path

import pytest

from kernel_delay.cli import main
from kernel_delay.commands.log.causes import Usage
from tests.unit.test_logs import of_usage, vlog, write

BLOCKED = Usage(2000, 100, 50, 3, 1, 0, 8, 5, 1)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    lines = [
        vlog(-1, 40, "ovs_rcu(urcu2)", "blocked 1000 ms waiting for main to quiesce"),
        *of_usage(BLOCKED),
        *of_usage(Usage(1500, 1400, 0), "handler3", 5),
    ]
    return write(tmp_path / "ovs-vswitchd.log", lines)


def test_text_has_verdict_and_rounds(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(log)]) == os.EX_OK
    out = capsys.readouterr().out
    assert "2 long rounds, 3,500 ms in all" in out
    assert (
        "# VERDICT: The main thread of ovs-vswitchd was blocked in its one long round: off the CPU"
        " for 1,850 ms of 2,000 ms in all, 1 major page fault.\n" in out
    )
    assert "# NEXT: kernel-delay watch --comm ovs-vswitchd\n" in out
    assert "04:04:59.000 ovs_rcu(urcu2): blocked 1000 ms waiting for main to quiesce\n" in out
    assert out.index("2,000 ms: blocked") < out.index("1,500 ms: computing")


def test_json_has_each_round(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "--json", str(log)]) == os.EX_OK
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kernel-delay-log/1"
    assert [each["cause"] for each in document["survey"]["rounds"]] == ["blocked", "computing"]
    assert document["survey"]["rounds"][0]["usage"]["major_faults"] == 1


def test_log_without_long_rounds_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "a.log", [vlog(0, 1, "bridge", "x")])
    assert main(["log", str(log)]) == os.EX_OK
    assert "no unreasonably long poll interval" in capsys.readouterr().out


def test_file_of_others_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(write(tmp_path / "a.log", ["nothing"]))]) == os.EX_DATAERR
    assert "no line is from a log of Open vSwitch or OVN" in capsys.readouterr().err


def test_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no.log"
    assert main(["log", str(missing)]) == os.EX_NOINPUT
    assert (
        capsys.readouterr().err
        == f"kernel-delay: can't read {missing}: No such file or directory\n"
    )


def test_folder_without_logs_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", str(tmp_path)]) == os.EX_NOINPUT
    assert "has no file that is called as logs are: name the files" in capsys.readouterr().err


def test_what_can_be_read_is_reported(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(log), str(log.with_name("no.log"))]) == os.EX_DATAERR
    printed = capsys.readouterr()
    assert "2 long rounds" in printed.out
    assert "can't read" in printed.err


def test_zone_that_is_none_is_refused(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "--timezone", "Nowhere/../x", str(log)]) == os.EX_USAGE
    assert "Europe/Berlin or +01:00" in capsys.readouterr().err


def test_page_cannot_replace_a_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(log), "--html", str(log)]) == os.EX_USAGE
    assert "Unreasonably" in log.read_text()


def test_hostile_log_prints_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;x\x07\x1b[2J<script>alert(1)</script>\u202e"
    lines = [
        vlog(-1, 1, f"bridge({evil[:9]})", evil),
        vlog(-1, 2, f"ovs_rcu({evil[:9]})", f"blocked 9000 ms waiting for {evil[:9]} to quiesce"),
        *of_usage(BLOCKED, evil[:9], number=3),
    ]
    log = write(tmp_path / f"{evil.replace('/', '')}.log", lines)
    page = tmp_path / "page.html"
    assert main(["log", str(log), "--html", str(page)]) == os.EX_OK
    assert main(["log", str(log), "--json"]) == os.EX_OK
    printed = "".join(capsys.readouterr())
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert "<script>alert" not in page.read_text()
    assert "\x1b" not in page.read_text()


def test_names_that_are_not_utf8_are_escaped_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = os.fsencode(tmp_path / "logs")
    os.mkdir(folder)
    for name in (b"y\xff.log", b"z\xff.log.xz"):
        with open(os.path.join(folder, name), "w") as file:
            file.writelines(f"{line}\n" for line in of_usage(BLOCKED))
    assert main(["log", os.fsdecode(folder), "--json"]) == os.EX_DATAERR
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["survey"]["logs"][0]["name"].endswith(r"y\xff.log")
    assert r"z\xff.log.xz" in document["survey"]["left_out"][0]
    assert r"z\xff.log.xz" in err


def test_several_logs_are_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = write(log.with_name("ovn-controller.log"), of_usage(Usage(1800, 1700, 0), second=60))
    assert main(["log", str(log), str(other)]) == os.EX_OK
    out = capsys.readouterr().out
    assert f"# VERDICT: {log}: The main thread of ovs-vswitchd was blocked" in out
    assert f"# VERDICT: {other}: The main thread of ovn-controller computed" in out


@pytest.mark.parametrize(("zone", "time"), [("+01:00", "03:05:06"), ("Asia/Tokyo", "19:05:06")])
def test_zone_is_that_of_syslog(
    zone: str, time: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "Unreasonably long 2000ms poll interval (100ms user, 50ms system)"
    line = f"Feb  3 04:05:06 node1 ovs-vswitchd[12]: ovs|00007|timeval|WARN|{text}"
    assert main(["log", "--timezone", zone, str(write(tmp_path / "messages", [line]))]) == 0
    assert f"{time}.000  ovs-vswitchd main thread  2,000 ms" in capsys.readouterr().out
