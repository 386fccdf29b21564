"""The options that say what of the Samples the text shows, and in which order."""

import argparse
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments, outputs
from kernel_delay.errors import UsageError

if TYPE_CHECKING:
    from kernel_delay.reporters.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Add the options; --percentiles is with those of the accounting."""
    group = parser.add_argument_group("text output")
    return [
        group.add_argument(
            "--sort",
            dest="order",
            choices=("lost", "name"),
            default="lost",
            help="sort threads by lost time, or by name as kernel_delay.py does (default:"
            " %(default)s)",
        ),
        group.add_argument(
            "--units",
            choices=("auto", "ns", "ms"),
            default="auto",
            help="units of the times in tables: nanoseconds, milliseconds, or on a terminal three"
            " digits and a unit, and nanoseconds elsewhere (default: %(default)s)",
        ),
        group.add_argument(
            "--all-threads",
            action="store_true",
            help="also show threads that slept for the whole window (otherwise summarised in"
            " one line), and with --summary each of many ended threads of a name",
        ),
        group.add_argument(
            "--all-rows",
            action="store_true",
            help="on a terminal, show all rows of a thread's tables, even if they exceed 50 lines",
        ),
        group.add_argument(
            "--top",
            type=arguments.count,
            default=10,
            metavar="N",
            help="with -s or --wakers stacks: number of stacks to show, worst first"
            " (default: %(default)s)",
        ),
        group.add_argument(
            "--events",
            action="store_true",
            help="with -s: also list each system call",
        ),
    ]


def add_summary(parser: argparse._ActionsContainer) -> argparse.Action:
    """Add the option for a text of a line a thread."""
    return parser.add_argument(
        "--summary",
        action="store_true",
        help="print a line for each thread and the verdict instead of the tables",
    )


def add_percentiles(parser: argparse._ActionsContainer) -> argparse.Action:
    """Add the option for one more table."""
    return parser.add_argument(
        "--percentiles",
        action="store_true",
        help="add a table with the 50th, 90th and 99th percentile of calls, runs and waits",
    )


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add the option that says whether the text has colour."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="use colour: on a terminal, always or never (default: %(default)s). The"
        " environment variables NO_COLOR and FORCE_COLOR also set this",
    )


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for --events without calls, and for calls that no output would show."""
    if args.events and args.event_ns is None:
        raise UsageError("--events needs --syscall-events")
    if args.summary and args.event_ns is not None and not outputs.has_other(args):
        raise UsageError(
            "--summary prints no single calls: leave it or -s out, or write the calls with -o or"
            " --html"
        )


def layout_of(args: argparse.Namespace, *, named: bool) -> "Layout":
    """Return the layout that the options ask for, of a pipe or a file; `named` as Layout's."""
    from kernel_delay.reporters.layout import Layout

    return Layout(
        color=args.color,
        units=args.units,
        order=args.order,
        all_threads=args.all_threads,
        all_rows=args.all_rows,
        percentiles=args.percentiles,
        top=args.top,
        events=args.events,
        named=named,
    )
