"""`kernel-delay probes`: list what can be a trigger, ready to paste."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernel_delay.probes.listing import ProbeList
    from kernel_delay.probes.objects import ProbedObject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a listing; without one of the globs it is of USDT probes."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="list the probes of a program or library instead of a process",
    )
    target_options.add_arguments(parser)
    parser.add_argument(
        "--usdt", action="store_true", help="list USDT probes (default without another list)"
    )
    parser.add_argument(
        "--functions",
        metavar="[LIBRARY:]GLOB",
        help="list functions of the program or of a library",
    )
    parser.add_argument("--kernel", metavar="GLOB", help="list kernel functions for kprobes")
    parser.add_argument(
        "--tracepoints", metavar="GLOB", help="list tracepoints by SYSTEM:EVENT or by EVENT"
    )
    output_options.add_json_alone(parser)


def run(args: argparse.Namespace) -> int:
    """Make the lists that were asked for and print them."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.probes import listing

    nothing_else = args.functions is None and args.kernel is None and args.tracepoints is None
    usdt = args.usdt or nothing_else
    found = listing.list_probes(
        _objects(args) if usdt or args.functions is not None else (),
        usdt=usdt,
        functions=args.functions,
        kernel=args.kernel,
        tracepoints=args.tracepoints,
    )
    output_options.stdout().write(_rendered(found, as_json=args.json))
    return os.EX_OK


def _objects(args: argparse.Namespace) -> "Sequence[ProbedObject]":
    """The objects of the file or of the process that is asked about."""
    from kernel_delay.probes.objects import file_object, process_objects

    if args.file is not None:
        if target_options.is_given(args):
            raise UsageError("give FILE or a process, as --pid does, not both")
        return (file_object(args.file),)
    return process_objects(target_options.find(args).pid)


def _rendered(found: "ProbeList", *, as_json: bool) -> str:
    from kernel_delay.probes import listing
    from kernel_delay.reporters import json

    return json.render(found) if as_json else listing.render(found)
