"""The page of what is ours for each option of Open vSwitch's scripts."""

import argparse
import mmap
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay import cli, commands
from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import recording as recording_options
from tests.peers.options import OPTION, Script, options_in, options_of, page, read_scripts
from tests.recordings import HEADER
from tests.unit.event_recordings import record_events

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "upstream.md"


def test_the_page_is_of_this_version() -> None:
    assert PAGE.read_text() == page(), "python -m tests.peers.options > docs/reference/upstream.md"


@pytest.mark.parametrize("script", read_scripts(), ids=lambda script: script.name)
def test_each_option_that_is_named_there_is(script: Script) -> None:
    there = options_of(script.command)
    for theirs, ours in script.options.items():
        first = ours.partition(":")[0]
        assert set(OPTION.findall(first)) <= there, theirs


def test_a_script_s_options_are_found_in_its_source() -> None:
    source = """
parser.add_argument("-p", "--pid", type=int)
parser.add_argument("--sets", action="store_true")
group.add_option("-x")
print("add_argument")
"""
    assert options_in(source) == {"-p, --pid", "--sets"}


def parsed(command: str, *given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser, commands.load(command))
    return parser.parse_args(given)


EDGES = ("--start-trigger", "up:a", "--stop-trigger", "up:b")


# Of each script as its own --help has it (utilities/usdt-scripts, 3.5).
@pytest.mark.parametrize(
    ("command", "given", "option", "value"),
    [
        ("capture", EDGES, "trigger_delta_ns", 0),
        ("capture", (*EDGES, "--trigger-delta"), "trigger_delta_ns", 0),
        ("capture", (*EDGES, "--trigger-delta", "50000"), "trigger_delta_ns", 50_000),
        ("upcall-cost", (), "packet_size", 256),
        ("upcall-cost", (), "flow_key_size", 64),
        ("upcall-cost", (), "histogram_buckets", 20),
        ("upcall-cost", ("-P", "128", "-f", "64"), "packet_size", 128),
        ("upcall-monitor", (), "packet_size", 64),
        ("upcall-monitor", (), "flow_key_size", 64),
        ("upcall-cost", ("-D", "0x3f"), "debug", 2),
        ("upcall-cost", ("-D", "0x0"), "debug", 0),
    ],
)
def test_defaults_of_options_are_those_of_the_scripts(
    command: str, given: tuple[str, ...], option: str, value: object
) -> None:
    assert getattr(parsed(command, *given), option) == value


@pytest.mark.parametrize("command", ["upcall-monitor", "upcall-cost", "flows", "datapath-ops"])
def test_each_buffer_is_of_so_many_pages(command: str) -> None:
    for given, pages in (((), 4096), (("--buffer-page-count", "1000"), 1024)):
        asked = parsed(command, *given).buffer_page_count
        assert arguments.buffer_bytes(asked) == pages * mmap.PAGESIZE


# The example commands of the scripts' own texts (main, 2026), of all that they take, and of the
# users' habits: each is ours with the command for the script's name.
@pytest.mark.parametrize(
    "line",
    [
        "datapath-ops --packet-decode decode --trace-exec-op",
        "datapath-ops --trace-put-op --trace-del-op --trace-get-op -n hex -s 512 -w a.pcap",
        "revalidator",
        "revalidator -g -R -u 0.5 -P /usr/bin/pahole --buffer-page-count 64 -w reval.csv",
        "flows --flow-keys --filter-flows ipv4(src=192.168.10.10) -P pahole",
        "upcall-monitor --packet-decode decode --flow-key-decode nlraw -s 128 -f 128 -w a.pcap",
        "upcall-cost --handler-filter handler1,handler2 -q -w events.log",
        "upcall-monitor --time 1.5",
        "upcall-cost --time 1.5",
    ],
)
def test_command_lines_of_the_scripts_are_taken(line: str) -> None:
    command, *given = line.split()
    parsed(command, *given)


@pytest.mark.parametrize("command", sorted({script.command for script in read_scripts()}))
def test_each_monitor_stops_after_a_time(command: str) -> None:
    option = "--sample-time" if command == "capture" else "--time"
    assert option in options_of(command)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-g",), "-g has no effect here: there are no windows"),
        (("--pahole", "x"), "--pahole has no effect here: neither pahole nor debug"),
    ],
)
def test_what_is_not_needed_here_says_so(
    capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    parsed("revalidator", *given)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-W", "x.png"), "-W: charts are a page for a browser: --html x.html; see"),
        (("-r", "x.csv"), "-r: `kernel-delay report x.csv` reads what -w wrote; see"),
    ],
)
def test_what_is_another_option_here_is_named(
    capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    assert cli.main(["revalidator", *given]) == os.EX_USAGE
    assert said in capsys.readouterr().err


@pytest.fixture
def lines_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What is reported of operations below the heading: two of flow_new, a packet_execute."""
    record_events(tmp_path / "a.kdr", "datapath-ops")

    def lines_of(*given: str) -> list[str]:
        assert cli.main(["report", str(tmp_path / "a.kdr"), *given]) == 0
        return capsys.readouterr().out.partition("\n\n")[0].splitlines()[1:]

    return lines_of


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (("--trace-exec-op",), {"packet_execute"}),
        (("--trace-put-op", "--trace-get-op"), {"flow_new"}),
        (("--trace-exec-op", "--trace-put-op"), {"packet_execute", "flow_new"}),
        (("--trace-exec-op", "--operation", "flow_new"), {"packet_execute", "flow_new"}),
    ],
)
def test_traced_operations_are_the_only_ones(
    lines_of: Callable[..., list[str]], given: tuple[str, ...], shown: set[str]
) -> None:
    lines = lines_of(*given, "-n", "none")
    assert {line.split()[3] for line in lines} == shown


def test_messages_are_shown_as_asked(lines_of: Callable[..., list[str]]) -> None:
    none, as_bytes, decoded = (lines_of("-n", form) for form in ("none", "hex", "nlraw"))
    assert len(none) == 3
    assert lines_of() == decoded
    assert any(line.startswith("    actions: ") for line in decoded)
    assert not any(line.startswith("    actions: ") for line in as_bytes)
    assert len([line for line in as_bytes if line.startswith(f"{' ' * 8}0000 ")]) == 3


def test_a_file_of_packets_is_not_overwritten_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, packets = tmp_path / "a.kdr", tmp_path / "a.pcap"
    record_events(recording, "upcall-monitor")
    report = ["report", str(recording), "-w", str(packets)]
    packets.touch()
    assert cli.main(report) == 0
    first = packets.read_bytes()
    packets.write_bytes(first + b"of yesterday")
    assert cli.main(report) == os.EX_CANTCREAT
    assert f"{packets} exists already: name another file, or give --overwrite" in (
        capsys.readouterr().err
    )
    assert packets.read_bytes() == first + b"of yesterday"
    assert cli.main([*report, "--overwrite"]) == 0
    assert packets.read_bytes() == first


def test_overwrite_without_a_file_of_packets_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_events(tmp_path / "a.kdr", "upcall-monitor")
    assert cli.main(["report", str(tmp_path / "a.kdr"), "--overwrite"]) == os.EX_USAGE
    assert "--overwrite replaces a file of packets: add --pcap" in capsys.readouterr().err


def test_a_recording_called_csv_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        args = argparse.Namespace(recording_file=tmp_path / "x.csv", redact=False)
        recording_options.open_writer(args, lambda: HEADER, stack)
    assert "x.csv will be a recording for `kernel-delay report`, not CSV" in capsys.readouterr().err
