"""Command-line values: a value in range, or an ArgumentTypeError, from any text."""

import os
from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernel_delay import cli
from kernel_delay.commands import watch
from kernel_delay.commands.options import arguments
from kernel_delay.loader._records import lib


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0.5", 500_000_000),
        ("4", 4_000_000_000),
        ("1e-3", 1_000_000),
        ("0.1", 100_000_000),  # exactly, which binary floating point has not
        ("0.000000001", 1),
        ("604800", 604_800_000_000_000),
        ("2ms", 2_000_000),
        ("1.5us", 1_500),
        ("7µs", 7_000),
        ("1e2ns", 100),
        ("3s", 3_000_000_000),
        ("10min", 600_000_000_000),
    ],
)
def test_seconds_become_nanoseconds(text: str, ns: int) -> None:
    assert arguments.duration_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    ["0", "0.0", "-0", "1e-10", "-1", "604800.1", "1e99999", "-inf", "0ms", "11000min"],
)
def test_durations_that_make_no_sense(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        arguments.duration_ns(text)


def test_files_may_be_kept_for_years() -> None:
    assert arguments.age_ns("315360000") == 315_360_000 * 10**9
    with pytest.raises(ArgumentTypeError, match="at most 3,153,600,000 seconds"):
        arguments.age_ns("3153600001")
    with pytest.raises(ArgumentTypeError, match="more than 0"):
        arguments.age_ns("0")
    action = next(
        each
        for each in cli.parser_of("watch", watch)._actions
        if "--max-age" in each.option_strings
    )
    assert action.type is arguments.age_ns


@pytest.mark.parametrize("text", ["ms", "2 h", "1m", "2mss", "0x2ms", "ns2"])
def test_unknown_units_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="with a unit as 2ms"):
        arguments.duration_ns(text)


@pytest.mark.parametrize(("text", "ns"), [("1500", 1500), ("0", 0), ("1ms", 1_000_000)])
def test_nanoseconds_may_have_a_unit(text: str, ns: int) -> None:
    assert arguments.nanoseconds(text) == ns


@pytest.mark.parametrize("text", ["0.1", "1m", "x"])
def test_a_fraction_of_nanoseconds_needs_a_unit(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="must be nanoseconds, or have a unit as 1ms"):
        arguments.nanoseconds(text)


def test_pause_may_be_none() -> None:
    assert arguments.pause_ns("0") == 0


@pytest.mark.parametrize(
    ("text", "pages"),
    [("1", 1), ("2", 2), ("3", 4), ("1000", 1024), ("1024", 1024), ("1025", 2048)],
)
def test_buffer_is_rounded_up_to_a_power_of_two(text: str, pages: int) -> None:
    assert arguments.buffer_pages(text) == pages


def test_largest_buffer_fits_the_size_of_a_map() -> None:
    highest = (1 << 31) // os.sysconf("SC_PAGE_SIZE")
    assert arguments.buffer_pages(str(highest)) == highest
    with pytest.raises(ArgumentTypeError, match="at most"):
        arguments.buffer_pages(str(highest + 1))


@pytest.mark.parametrize(
    ("parse", "lowest", "highest"),
    [
        (arguments.process_id, 1, 4_194_303),
        (arguments.count, 1, arguments.HIGHEST_COUNT),
        (arguments.bucket_count, 1, arguments.MOST_BUCKETS),
        (arguments.debug_level, 0, 2),
        (arguments.buffer_pages, 1, 1 << 31),
        (arguments.duration_ns, 1, 604_800 * 10**9),
        (arguments.pause_ns, 0, 604_800 * 10**9),
        (arguments.nanoseconds, 0, 604_800 * 10**9),
    ],
)
@given(text=st.text() | st.integers().map(str) | st.floats().map(str) | st.decimals().map(str))
@example("sNaN")
@example("sNaNms")
@example("1e999999ms")
@example("9" * 23)
@example("9" * 5000)
@example("1e999999999999999999")
def test_any_text_is_a_number_in_range_or_refused(
    parse: Callable[[str], int], lowest: int, highest: int, text: str
) -> None:
    try:
        value = parse(text)
    except ArgumentTypeError:
        return
    assert isinstance(value, int)
    assert lowest <= value <= highest


@pytest.mark.parametrize(("text", "level"), [("0x0", 0), ("0x3f", 2), ("0x4000000", 2), ("1", 1)])
def test_debug_masks_of_the_scripts_enable_the_whole_log(text: str, level: int) -> None:
    assert arguments.debug_level(text) == level


def test_stack_bytes_are_whole_pages_within_the_programs_limit() -> None:
    assert arguments.STACK_PAGE == lib.STACK_PAGE
    assert arguments.STACK_BYTES_MAX == lib.STACK_BYTES_MAX
    assert arguments.stack_bytes("1") == lib.STACK_PAGE


@pytest.mark.parametrize(("text", "percent"), [("1", 1), ("1%", 1), ("100%", 100)])
def test_a_percentage_may_have_its_sign(text: str, percent: int) -> None:
    assert arguments.percentage(text) == percent


@pytest.mark.parametrize("text", ["%", "1%%", "101%", "0%"])
def test_no_other_percentage_is_taken(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        arguments.percentage(text)
