"""`kernel-delay fleet`: which nodes lose most, to what, and since when: from what was exported."""

import argparse
import os
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import layout as layout_options
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.errors import naming
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from kernel_delay.fleet import FleetSurvey

MOST_REPORTED = 3
"""What can't be read, by name; of the others their number alone is printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to read, and what is reported of it."""
    parser.add_argument(
        "folders",
        nargs="+",
        type=arguments.path,
        metavar="DIR",
        help="a folder that `kernel-delay export --parquet` wrote",
    )
    parser.add_argument(
        "--top",
        type=arguments.count,
        metavar="N",
        help=("number of rows in each table, worst first (default: 20; in JSON and pages 10,000)"),
    )
    output_options.add_json_alone(parser)
    layout_options.add_color(parser)
    page_options.add_html(parser, "also write a page for a browser")


def run(args: argparse.Namespace) -> int:
    """Ask, and report; EX_DATAERR where not all could be read, after what could."""
    from kernel_delay.fleet.database import survey
    from kernel_delay.fleet.parquet_files import find
    from kernel_delay.reporters.fleet import MOST_ROWS

    found = find(args.folders)
    for line in found.left_out[:MOST_REPORTED]:
        print_message(f"{line}: it is left out")
    if found.left_out[MOST_REPORTED:]:
        print_message(f"so are {len(found.left_out) - MOST_REPORTED:,} others")
    result = survey(found, args.top or MOST_ROWS)
    _report(args, result)
    if args.html is not None:
        from kernel_delay.reporters.page.fleet import render

        page_options.write_page(args.html, render(result))
    return os.EX_DATAERR if found.left_out else os.EX_OK


def _report(args: argparse.Namespace, result: "FleetSurvey") -> None:
    from kernel_delay.reporters import fleet, json
    from kernel_delay.reporters.layout import Layout

    most = args.top or fleet.FIRST_ROWS
    with naming("standard output"):
        if args.json:
            output_options.stdout().writelines(json.chunks(fleet.document(result)))
        else:
            layout = output_options.as_shown(Layout(color=args.color), output_options.stdout())
            output_options.stdout().writelines(fleet.lines(result, layout, most))
        output_options.stdout().flush()
