"""Types of command-line arguments: text to a value, or what is wrong with it.

Each is a `type=` of argparse: it raises ArgumentTypeError, which the command
line turns into a usage error that names the option.
"""

import datetime
import os
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from kernel_delay.capture import LONGEST_S
from kernel_delay.formatting import NS_PER_MS, NS_PER_S, NS_PER_US

UNITS_NS = (
    ("ns", 1),
    ("us", NS_PER_US),
    ("µs", NS_PER_US),
    ("ms", NS_PER_MS),
    ("s", NS_PER_S),
    ("min", 60 * NS_PER_S),
)
"""What a duration may end in, a unit before another that it ends in too."""

HIGHEST_COUNT = 1_000_000_000
"""More of anything is never reached: a billion samples, of a millisecond each, take eleven days."""

PID_MAX_LIMIT = 4 * 1024 * 1024
"""No PID reaches this on a 64-bit kernel (include/linux/threads.h, 6.18)."""

RING_BUFFER_MAX_BYTES = 1 << 31
"""The largest power of two that fits the u32 in which bpf(2) takes a map's size."""


LONGEST_AGE_S = 100 * 365 * 24 * 3600
"""Nobody keeps a file for longer."""

HIGHEST_DEBUG_LEVEL = 2

STACK_PAGE = 4096
STACK_BYTES_MAX = 1048576
"""Of bpf/event_records.h: a stack is copied by pages of 4 KiB, and up to 1 MiB of it."""

MOST_STACKS = 1_000_000
MOST_BUCKETS = 1000

CAPTURED_MIN, CAPTURED_MAX = 64, 2048
"""Of a packet or flow key, in bytes. Less would not hold the fields that identify upcalls."""


# ODPUTIL_FLOW_KEY_BYTES of lib/odp-util.h, Open vSwitch 3.7: no key that it makes is longer.
WHOLE_KEY = 640


def path(text: str) -> Path:
    """A path. Nothing, as of a variable that is not set, would be the current folder."""
    if not text:
        raise ArgumentTypeError("must not be empty")
    return Path(text)


def timezone(text: str) -> datetime.tzinfo:
    """A time zone, by its name or its distance from UTC."""
    if text == "UTC":
        return datetime.UTC
    # It looks for the zones' files when it is imported.
    from zoneinfo import ZoneInfo

    try:
        if text[:1] not in ("+", "-"):
            return ZoneInfo(text)
        offset = datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{text}").utcoffset()
        return datetime.timezone(offset or datetime.timedelta())
    except (ValueError, OSError, KeyError):  # of a name that no zone has
        raise ArgumentTypeError(f"must be as Europe/Berlin or +01:00, not {text!r}") from None


def process_id(text: str) -> int:
    """A PID or thread id."""
    return _integer(text, lowest=1, highest=PID_MAX_LIMIT - 1)


def debug_level(text: str) -> int:
    """How much of libbpf's log is wanted.

    Open vSwitch's scripts take a mask of BCC's debugging flags there, which are all of the log.
    """
    if text.startswith("0x"):
        try:
            return HIGHEST_DEBUG_LEVEL if int(text, 16) else 0
        except ValueError:
            raise ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    return _integer(text, lowest=0, highest=HIGHEST_DEBUG_LEVEL)


def count(text: str) -> int:
    """How many of something that there must be one of."""
    return _integer(text, lowest=1, highest=HIGHEST_COUNT)


def percentage(text: str) -> int:
    """A share of a whole, with a % or without."""
    return _integer(text.removesuffix("%"), lowest=1, highest=100)


def buffer_pages(text: str) -> int:
    """The size of a BPF ring buffer in pages, rounded up to a power of two."""
    highest = RING_BUFFER_MAX_BYTES // os.sysconf("SC_PAGE_SIZE")
    return 1 << (_integer(text, lowest=1, highest=highest) - 1).bit_length()


def duration_ns(text: str) -> int:
    """Seconds that must be more than none, as nanoseconds."""
    return _duration_ns(text, LONGEST_S)


def age_ns(text: str) -> int:
    """How long files are kept, in seconds, as nanoseconds."""
    return _duration_ns(text, LONGEST_AGE_S)


def _duration_ns(text: str, longest_s: int) -> int:
    duration = _ns(text, longest_s)
    if duration is None or duration == 0:
        raise ArgumentTypeError(
            f"must be more than 0 and at most {longest_s:,} seconds, not {text!r}"
        )
    return duration


def pause_ns(text: str) -> int:
    """Seconds, 0 allowed, as nanoseconds."""
    pause = _ns(text, LONGEST_S)
    if pause is None:
        raise ArgumentTypeError(f"must be from 0 to {LONGEST_S:,} seconds, not {text!r}")
    return pause


def _ns(text: str, longest_s: int) -> int | None:
    """Seconds, or what the unit says, as nanoseconds; None if negative or too long.

    What is below a nanosecond is dropped.
    """
    from decimal import Decimal, InvalidOperation

    number, unit_ns = _without_unit(text) or (text, NS_PER_S)
    try:
        value = Decimal(number)
    except InvalidOperation:
        message = f"must be a number of seconds, or with a unit as 2ms, not {text!r}"
        raise ArgumentTypeError(message) from None
    if not value.is_finite() or not 0 <= value <= longest_s * NS_PER_S // unit_ns:
        return None
    return int(value * unit_ns)


def _without_unit(text: str) -> tuple[str, int] | None:
    """The number that a unit follows, and the unit in ns; None if none does."""
    for unit, unit_ns in UNITS_NS:
        number = text.removesuffix(unit)
        if number != text:
            return number, unit_ns
    return None


def nanoseconds(text: str) -> int:
    """A duration in nanoseconds, or with a unit."""
    if _without_unit(text) is not None:
        return pause_ns(text)
    if not text.removeprefix("-").isdigit():
        raise ArgumentTypeError(f"must be nanoseconds, or have a unit as 1ms, not {text!r}")
    return _integer(text, lowest=0, highest=LONGEST_S * NS_PER_S)


def stack_count(text: str) -> int:
    """How many different stacks to keep."""
    return _integer(text, lowest=0, highest=MOST_STACKS)


def bucket_count(text: str) -> int:
    """How many buckets a histogram has."""
    return _integer(text, lowest=1, highest=MOST_BUCKETS)


def stack_bytes(text: str) -> int:
    """How much of a stack to copy: rounded up to whole pages of the copy."""
    size = _integer(text, lowest=1, highest=STACK_BYTES_MAX)
    return -(-size // STACK_PAGE) * STACK_PAGE


def captured_bytes(text: str) -> int:
    """How much of a packet or of a flow key to capture."""
    return _integer(text, lowest=CAPTURED_MIN, highest=CAPTURED_MAX)


def add_time(parser: ArgumentParser) -> None:
    """Add the option that says when to stop."""
    parser.add_argument(
        "--time",
        dest="time_ns",
        type=duration_ns,
        metavar="SECONDS",
        help="stop after SECONDS (default: at Ctrl-C)",
    )


def add_count(parser: ArgumentParser, what: str) -> None:
    """Add the option that says after how many of `what` to stop."""
    parser.add_argument(
        "--count", type=count, metavar="N", help=f"stop after N {what} (default: never)"
    )


def add_buffer_pages(parser: ArgumentParser, default: int = 4096) -> None:
    """Add the option that says how large the buffer for events is."""
    parser.add_argument(
        "--buffer-page-count",
        type=buffer_pages,
        default=default,
        metavar="N",
        help="size of the event buffer in pages, rounded up to a power of two (default:"
        " %(default)s)",
    )


def buffer_bytes(pages: int) -> int:
    """The bytes of that number of pages."""
    return pages * os.sysconf("SC_PAGE_SIZE")


def add_capture_sizes(
    parser: ArgumentParser, packet_option: str, packet_bytes: int = CAPTURED_MIN
) -> None:
    """Add the options that say so; that of the packet has another letter in each command."""
    parser.add_argument(
        packet_option,
        "--packet-size",
        type=captured_bytes,
        default=packet_bytes,
        metavar="BYTES",
        help=f"number of bytes to capture of each packet, {CAPTURED_MIN} to {CAPTURED_MAX}"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "-f",
        "--flow-key-size",
        type=captured_bytes,
        default=64,
        metavar="BYTES",
        help=f"number of bytes to capture of each flow key, {CAPTURED_MIN} to"
        f" {CAPTURED_MAX}; 130 suffice for IPv4, {WHOLE_KEY} for any key (default:"
        " %(default)s)",
    )


def _integer(text: str, lowest: int, highest: int | None = None) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    if value < lowest:
        raise ArgumentTypeError(f"must be at least {lowest}, not {text!r}")
    if highest is not None and value > highest:
        raise ArgumentTypeError(f"must be at most {highest:,}, not {text!r}")
    return value
