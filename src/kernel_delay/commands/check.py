"""`kernel-delay check`: say what this machine can do, and what is missing."""

import argparse
import os

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import target as target_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a check."""
    target_options.add_arguments(parser)
    output_options.add_json_alone(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found; EX_UNAVAILABLE if no capture can run."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.commands import check_report
    from kernel_delay.loader.base import start_log
    from kernel_delay.reporters import json
    from kernel_delay.reporters.layout import Layout

    start_log(args.debug)
    found = check_report.inspect(target_options.selection(args))
    file = output_options.stdout()
    layout = output_options.as_shown(Layout(), file)
    file.write(json.render(found) if args.json else check_report.render(found, layout))
    return os.EX_OK if found.can_capture else os.EX_UNAVAILABLE
