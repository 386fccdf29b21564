"""The options that say what to report of where the time went."""

import argparse

from kernel_delay.commands.options import arguments
from kernel_delay.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    accounting = parser.add_argument_group("where the time went")
    accounting.add_argument(
        "--summary",
        action="store_true",
        help="a line per thread and the verdict, in place of the tables",
    )
    accounting.add_argument(
        "--percentiles",
        action="store_true",
        help="a table of the 50th, 90th and 99th percentile of calls, runs and waits",
    )
    accounting.add_argument(
        "--wakers",
        choices=("names", "stacks"),
        default="names",
        help="who woke a thread: by name, or with the kernel's and the program's stack that it"
        " did so from",
    )
    accounting.add_argument(
        "--no-accounting",
        dest="accounting",
        action="store_false",
        help="only the tables: no account of all of the time, and no verdict",
    )
    accounting.add_argument(
        "--timeline",
        action="store_true",
        help="keep everything in order: each state, system call, page fault and interrupt of each"
        " thread, for a recording (-o), --html and --json",
    )
    accounting.add_argument(
        "--max-slices",
        type=arguments.count,
        metavar="N",
        help="of a timeline: how many slices to keep of a window; with more, interrupts are left"
        " out first, and then states (default: 2000000)",
    )


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that ask for what others turn off."""
    for option in ("summary", "percentiles", "timeline"):
        if getattr(args, option) and not args.accounting:
            raise UsageError(f"--{option} shows what --no-accounting turns off: leave one out")
    if args.max_slices is not None and not args.timeline:
        raise UsageError("--max-slices is of a timeline: add --timeline")
    if args.wakers == "stacks" and not args.accounting:
        raise UsageError("--wakers stacks shows what --no-accounting turns off: leave one out")
    if args.summary and args.percentiles:
        raise UsageError("--summary has no tables to show --percentiles in: leave one out")
