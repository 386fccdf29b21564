"""`upcall-cost --read-events`: an analysis of a file, without root and on any machine."""

from pathlib import Path

import pytest

from kernel_delay.cli import main
from kernel_delay.monitors.upcalls import cost_command
from kernel_delay.monitors.upcalls.events import UpcallEvents
from kernel_delay.recording.writer import RecordingWriter
from tests.recordings import header
from tests.unit.upcall_trips import World

BATCHES = [3, 5, 8]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "upcalls.cost"
    events, _ = World(seed=1).run(BATCHES)
    with RecordingWriter(path, header("upcall-cost", host="some-host", kernel="6.12.0")) as writer:
        for event in events:
            writer.events(UpcallEvents((event,), 0))
        writer.finish("interrupt", {"recv_upcall": 2})
    return path


def run(*arguments: object) -> int:
    return main(["upcall-cost", *map(str, arguments)])


def test_a_file_is_analysed(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-r", recording, "-b", 3) == 0
    output = capsys.readouterr().out
    assert "(some-host, Linux 6.12.0)" in output
    assert output.count("[recv_upcall           ]") == sum(BATCHES)
    assert f"- Analyzing {sum(BATCHES)} event sets..." in output
    assert "[         2]" in output
    total = output.partition("=> Kernel upcall to kernel packet execute")[2]
    assert total.count("]:") == 3


def test_quiet_prints_no_events_and_sets_all_sets(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-r", recording, "-q") == 0
    assert "[recv_upcall " not in capsys.readouterr().out
    assert run("-r", recording, "-q", "--sets") == 0
    assert capsys.readouterr().out.count(" batch ") == sum(BATCHES)


def test_only_handlers_of_the_filter_are_counted(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-r", recording, "-q", "--handler-filter", "handler2,handler3") == 0
    threads = capsys.readouterr().out.partition("=> Upcalls handled per thread:\n")[2]
    assert threads.splitlines()[0].split() == ["handler2", ":", "5"]
    assert not threads.splitlines()[1]


@pytest.mark.parametrize("output", ["-q", "--json"])
def test_filtered_handler_that_received_nothing_is_reported(
    recording: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-r", recording, output, "--handler-filter", "handler2,handler,") == 0
    assert (
        "no upcall was received by 'handler', '', but by handler1, handler2\n"
        in capsys.readouterr().err
    )


def test_only_so_many_events_are_taken(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-r", recording, "-q", "-s", 4) == 0
    assert "(4 events)" in capsys.readouterr().out


def test_a_cut_file_is_read_up_to_the_cut(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording.write_bytes(recording.read_bytes()[:-20])
    assert run("-r", recording, "-q") == 65  # EX_DATAERR
    captured = capsys.readouterr()
    assert f"- Analyzing {sum(BATCHES)} event sets..." in captured.out
    assert "was cut" in captured.err


@pytest.mark.parametrize("option", [("-p", "1"), ("-w", "elsewhere")])
def test_a_file_takes_the_place_of_a_process(
    recording: Path, option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-r", recording, *option) == 64  # EX_USAGE
    assert "--read-events takes neither" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("-r", "/nowhere"), ()])
def test_more_events_than_are_analysed_are_refused(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*option, "-s", 1_000_001) == 64
    reported = capsys.readouterr().err
    assert "argument -s/--stop: must be at most 1,000,000, not '1000001'" in reported
    assert reported.count("\n") == 1


def test_event_limit_is_reported_unless_requested(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cost_command, "MOST_EVENTS", 4)
    for options, reported in (
        ((), "stopped after 4 events, the most that are analysed"),
        (("-s", 4), ""),
    ):
        assert run("-r", recording, "-q", *options) == 0
        captured = capsys.readouterr()
        assert "(4 events)" in captured.out
        assert reported in captured.err
        assert bool(captured.err) == bool(reported)


@pytest.mark.parametrize("size", ["63", "2049", "x"])
def test_sizes_out_of_range_are_refused(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-P", "-f"):
        assert run(option, size) == 64
        assert "kernel-delay: " in capsys.readouterr().err
    assert main(["upcall-monitor", "-s", size]) == 64
