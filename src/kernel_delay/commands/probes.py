"""`kernel-delay probes`: list what can be a trigger, ready to paste."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.errors import UsageError
from kernel_delay.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernel_delay.probes.objects import ProbedObject
    from kernel_delay.probes.probe_list import ProbeList


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a listing; without one of the globs it is of USDT probes."""
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="a program or library, in place of a PID"
    )
    parser.add_argument(
        "-p",
        "--pid",
        type=arguments.process_id,
        metavar="PID",
        help="the process, or one of its threads (default: the one named ovs-vswitchd)",
    )
    parser.add_argument(
        "--usdt", action="store_true", help="list USDT probes (default if nothing else is asked)"
    )
    parser.add_argument(
        "--functions",
        metavar="[LIBRARY:]GLOB",
        help="list functions of the executable or of a library",
    )
    parser.add_argument("--kernel", metavar="GLOB", help="list kernel functions for kprobes")
    parser.add_argument(
        "--tracepoints", metavar="GLOB", help="list tracepoints by SYSTEM:EVENT, or by EVENT"
    )
    parser.add_argument("--json", action="store_true", help="write JSON in place of the text")


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
    sys.stdout.write(_rendered(found, as_json=args.json))
    return os.EX_OK


def _objects(args: argparse.Namespace) -> "Sequence[ProbedObject]":
    """The objects of the file or of the process that is asked about."""
    from kernel_delay.host.target import find_target
    from kernel_delay.probes.objects import file_object, process_objects

    if args.file is not None:
        if args.pid is not None:
            raise UsageError("give FILE or --pid, not both")
        return (file_object(args.file),)
    target = find_target(args.pid)
    if target.note is not None:
        print(f"kernel-delay: {printable(target.note)}", file=sys.stderr)
    return process_objects(target.pid)


def _rendered(found: "ProbeList", *, as_json: bool) -> str:
    from kernel_delay.reporters import json, probes

    return json.render(found) if as_json else probes.render(found)
