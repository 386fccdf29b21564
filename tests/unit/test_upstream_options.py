"""The page of what is ours for each option of Open vSwitch's scripts."""

import argparse
import mmap
from pathlib import Path

import pytest

from kernel_delay import cli, commands
from kernel_delay.commands.options import arguments
from tests.peers.options import OPTION, Script, options_in, options_of, page, read_scripts

PAGE = Path(__file__).parents[2] / "docs" / "upstream.md"


def test_the_page_is_of_this_version() -> None:
    assert PAGE.read_text() == page(), "python -m tests.peers.options > docs/upstream.md"


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
def test_what_is_left_out_is_as_the_scripts_have_it(
    command: str, given: tuple[str, ...], option: str, value: object
) -> None:
    assert getattr(parsed(command, *given), option) == value


@pytest.mark.parametrize("command", ["upcall-monitor", "upcall-cost", "flows", "datapath-ops"])
def test_each_buffer_is_of_so_many_pages(command: str) -> None:
    for given, pages in (((), 4096), (("--buffer-page-count", "1000"), 1024)):
        asked = parsed(command, *given).buffer_page_count
        assert arguments.buffer_bytes(asked) == pages * mmap.PAGESIZE
