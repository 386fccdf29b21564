"""`kernel-delay log`: what long poll intervals were long of, from logs, with nothing attached.

From files (`files`) to lines (`lines`), to rounds with their resource usage (`rounds`) and causes
(`causes`), to sums (`survey`), to a report (`text`, `page`). Who wrote a log is not trusted: each
step is bounded.
"""

import argparse
import os
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import layout as layout_options
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.errors import InputError, NoInputError, naming
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from kernel_delay.commands.log.survey import LogSurvey

MOST_NAMED = 3
"""Files that can't be read, by name; of the others only their number is reported."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which logs to read, and what to show."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a log, also of gzip, xz or bzip2; a folder with logs, as of sos or must-gather;"
        " or -, the standard input",
    )
    parser.add_argument(
        "--timezone",
        type=arguments.timezone,
        default="UTC",
        metavar="ZONE",
        help="the zone of times that name none, as syslog's: Europe/Berlin or +01:00 (default:"
        " %(default)s)",
    )
    parser.add_argument(
        "--top",
        type=arguments.count,
        metavar="N",
        help="how many classes of threads and iterations the text shows (default: 20, the longest)",
    )
    output_options.add_json_alone(parser)
    layout_options.add_color(parser)
    page_options.add_html(
        parser, "write a page with the long iterations over time, and each of them"
    )


def run(args: argparse.Namespace) -> int:
    """Read and report; EX_DATAERR where not all could be read, after what could."""
    from kernel_delay.commands.log.files import find
    from kernel_delay.commands.log.survey import survey

    if args.html is not None:
        output_options.refuse_inputs(args.files, [args.html])
    found = find(args.files)
    result = survey(found.logs, found.left_out, args.timezone)
    if result.left_out and not result.read_bytes:
        raise NoInputError(result.left_out[0])
    for line in result.left_out[:MOST_NAMED]:
        print_message(line)
    if result.left_out[MOST_NAMED:]:
        print_message(f"so are {len(result.left_out) - MOST_NAMED:,} others")
    if not result.logs and not result.left_out:
        raise InputError(
            "no line is from a log of Open vSwitch or OVN",
            "give a file that one of their programs wrote, as ovs-vswitchd.log",
        )
    _report(args, result)
    if args.html is not None:
        from kernel_delay.commands.log.page import render

        page_options.write_page(args.html, render(result))
    return os.EX_DATAERR if result.left_out else os.EX_OK


def _report(args: argparse.Namespace, result: "LogSurvey") -> None:
    from kernel_delay.commands.log import text
    from kernel_delay.reporters import json
    from kernel_delay.reporters.layout import Layout

    stdout = output_options.stdout()
    with naming("standard output"):
        if args.json:
            stdout.writelines(json.chunks(text.document(result)))
        else:
            layout = output_options.as_shown(Layout(color=args.color), stdout)
            stdout.writelines(text.lines(result, layout, args.top or text.FIRST_ROWS))
        stdout.flush()
