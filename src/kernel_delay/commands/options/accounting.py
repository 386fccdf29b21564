"""The options that say what to report of where the time went."""

import argparse

from kernel_delay.commands.options import arguments, layout
from kernel_delay.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    accounting = parser.add_argument_group("time accounting")
    layout.add_summary(accounting)
    layout.add_percentiles(accounting)
    accounting.add_argument(
        "--wakers",
        choices=("names", "stacks"),
        default="names",
        help="report who woke a thread by name, or with the stacks of the waker",
    )
    add_chains(accounting)
    accounting.add_argument(
        "--no-accounting",
        dest="accounting",
        action="store_false",
        help="only print the tables: no time accounting and no verdict",
    )
    accounting.add_argument(
        "--timeline",
        action="store_true",
        help="keep all states, system calls, page faults and interrupts in order, for -o,"
        " --html and --json",
    )
    accounting.add_argument(
        "--max-slices",
        type=arguments.count,
        metavar="N",
        help="number of timeline slices to keep in a window; beyond it interrupts are"
        " dropped first, then states (default: 2000000)",
    )


def add_chains(parser: argparse._ActionsContainer) -> None:
    """Add the option that has threads of other processes followed."""
    parser.add_argument(
        "--chains",
        action="store_true",
        help="follow whom the threads wait for, in other processes too, and report what the last"
        " of each wait chain did meanwhile",
    )


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that ask for what others turn off."""
    for option in ("summary", "percentiles", "timeline", "chains"):
        if getattr(args, option) and not args.accounting:
            raise UsageError(f"--{option} shows what --no-accounting turns off: leave one out")
    if args.max_slices is not None and not args.timeline:
        raise UsageError("--max-slices limits a timeline: add --timeline")
    if args.wakers == "stacks" and not args.accounting:
        raise UsageError("--wakers stacks shows what --no-accounting turns off: leave one out")
    if args.summary and args.percentiles:
        raise UsageError("--summary has no tables to show --percentiles in: leave one out")
