"""The options that say what of the Samples the text shows, and in which order."""

import argparse
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.errors import UsageError

if TYPE_CHECKING:
    from kernel_delay.reporters.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Add the options; --percentiles is with those of the accounting."""
    group = parser.add_argument_group("what the text shows")
    return [
        group.add_argument(
            "--sort",
            dest="order",
            choices=("lost", "name"),
            default="lost",
            help="threads by what they lost, worst first, or by name as kernel_delay.py has them"
            " (default: %(default)s)",
        ),
        group.add_argument(
            "--all-threads",
            action="store_true",
            help="show the threads that slept throughout too, of which else a line tells",
        ),
        group.add_argument(
            "--all-rows",
            action="store_true",
            help="on a terminal, show all rows of a thread's tables, and not only the first where"
            " all of them don't fit 50 lines",
        ),
        group.add_argument(
            "--top",
            type=arguments.count,
            default=10,
            metavar="N",
            help="of system calls by stack (-s), how many to show, the worst (default:"
            " %(default)s)",
        ),
        group.add_argument(
            "--events",
            action="store_true",
            help="list the single system calls of -s one by one too",
        ),
    ]


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for a list of calls that are not captured."""
    if args.events and args.event_ns is None:
        raise UsageError("--events needs --syscall-events")


def layout_of(args: argparse.Namespace, *, named: bool) -> "Layout":
    """Return the layout that the options ask for, of a pipe or a file; `named` as Layout's."""
    from kernel_delay.reporters.layout import Layout

    return Layout(
        order=args.order,
        all_threads=args.all_threads,
        all_rows=args.all_rows,
        percentiles=args.percentiles,
        top=args.top,
        events=args.events,
        named=named,
    )
