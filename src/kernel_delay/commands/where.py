"""`kernel-delay where`: where each thread of a process stands now, without stopping it."""

import argparse
import os

from kernel_delay.commands.options import layout as layout_options
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import syscall_events as event_options
from kernel_delay.commands.options import target as target_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that name the processes, and the form."""
    target_options.add_arguments(parser, several=True)
    event_options.add_source(parser)
    layout_options.add_color(parser)
    output_options.add_json_alone(parser)


def run(args: argparse.Namespace) -> int:
    """Look once, and print."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.host.target import find_descendants
    from kernel_delay.reporters import json, where
    from kernel_delay.reporters.layout import Layout
    from kernel_delay.where.look import look

    file = output_options.stdout()
    targets = target_options.find_all_to_measure(args)
    processes = targets.processes
    if targets.children:
        processes = (*processes, *find_descendants(targets.pids))
    found = look(processes, source=args.source, on_attached=_keep_rights)
    layout = output_options.as_shown(Layout(color=args.color), file)
    file.write(json.render(found) if args.json else where.render(found, layout))
    return os.EX_OK


def _keep_rights() -> None:
    """Give up what was needed to load the programs alone."""
    from kernel_delay.host import privileges

    privileges.keep_only((privileges.PROCESS, privileges.NAMES))
