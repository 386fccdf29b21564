"""Which process: the option, and what must hold before anything is attached to it."""

import argparse
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from kernel_delay.host.target import ProcessTarget


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option that names the process."""
    parser.add_argument(
        "-p",
        "--pid",
        type=arguments.process_id,
        metavar="PID",
        help="the process, or one of its threads (default: the one named ovs-vswitchd)",
    )


def find(args: argparse.Namespace) -> "ProcessTarget":
    """Return the process that is asked for; say so where it was a thread's id.

    Raises NoInputError if there is none.
    """
    from kernel_delay.host.target import find_target

    target = find_target(args.pid)
    if target.note is not None:
        tell(target.note)
    return target


def find_to_measure(args: argparse.Namespace) -> "ProcessTarget":
    """Return the process, on a machine that lets it be measured; libbpf's log is set up.

    Raises what find() and preflight.check() raise.
    """
    from kernel_delay.host import preflight
    from kernel_delay.libbpf import start_log

    target = find(args)
    preflight.check()
    start_log(args.debug)
    return target
