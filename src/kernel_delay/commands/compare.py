"""`kernel-delay compare`: what changed from one recording to another, beyond chance."""

import argparse
import os
from typing import TYPE_CHECKING

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.errors import naming
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from kernel_delay.analysis.comparison import Comparison
    from kernel_delay.analysis.conditions import Condition
    from kernel_delay.reporters.comparison_sides import Side

CHANGED = 1
"""The exit code where a condition of --fail-if is met."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two sides, and what is reported of them."""
    parser.add_argument(
        "before",
        metavar="BEFORE",
        help="a recording of capture or watch, or a folder with recordings of watch;"
        " FILE@M-N selects samples M to N, counted from 1",
    )
    parser.add_argument(
        "after", metavar="AFTER", help="another of the same kind, or other samples of the same file"
    )
    parser.add_argument(
        "--all", action="store_true", help="print all figures, also those that did not change"
    )
    output_options.add_json_alone(parser)
    page_options.add_html(parser, "also write a page for a browser with all figures")
    parser.add_argument(
        "--fail-if",
        dest="conditions",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 1 if a figure changed by more than this, beyond chance: ready>+5%%,"
        " or 'handler*:futex.mean>+10%%' for the threads of one name. May be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Compare, report, and judge the conditions."""
    from kernel_delay.analysis.conditions import parse_condition
    from kernel_delay.commands.compare_inputs import compare_sides, parse_part, read_side

    conditions = [parse_condition(text) for text in args.conditions]
    for side in (args.before, args.after):
        output_options.refuse_inputs(parse_part(side).files(), (args.html,))
    before, after = read_side(args.before), read_side(args.after)
    comparison = compare_sides(before, after)
    _report(args, before.side, after.side, comparison)
    if args.html is not None:
        from kernel_delay.reporters.page.comparison import render

        page_options.write_page(args.html, render(before.side, after.side, comparison))
    damages = [*before.damages, *after.damages]
    for damage in damages:
        print_message(str(damage))
    return damages[0].exit_code if damages else _judge(conditions, comparison)


def _judge(conditions: "list[Condition]", comparison: "Comparison") -> int:
    from kernel_delay.analysis.conditions import check_samples, met
    from kernel_delay.reporters.changes import change_text

    if conditions:
        check_samples(comparison)
    found = met(conditions, comparison)
    for condition, change in found:
        print_message(f"{condition.text}: {change_text(change)}")
    return CHANGED if found else os.EX_OK


def _report(
    args: argparse.Namespace, before: "Side", after: "Side", comparison: "Comparison"
) -> None:
    from kernel_delay.reporters import comparison as reporter
    from kernel_delay.reporters import json

    with naming("standard output"):
        if args.json:
            output_options.stdout().writelines(
                json.chunks(reporter.document(before, after, comparison))
            )
        else:
            output_options.stdout().writelines(
                reporter.lines(before, after, comparison, all_of_them=args.all)
            )
        output_options.stdout().flush()
