"""Which process: the options, and what must hold before anything is attached to it."""

import argparse
import os
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.errors import UsageError
from kernel_delay.formatting import encodable
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernel_delay.host.selection import Selection
    from kernel_delay.host.target import ProcessTarget, Targets

_BY_NAME = ("comm", "cgroup", "unit", "pod", "container")


def add_arguments(
    parser: argparse.ArgumentParser,
    *,
    several: bool = False,
    default: str = "the process named ovs-vswitchd",
) -> None:
    """The options that name the process, or `several`; selection() has what they say.

    Args:
        parser: That of the command.
        several: Whether the command takes several processes.
        default: What it measures without any of them, for its help.
    """
    more = "; may be repeated" if several else ""
    parser.add_argument(
        "-p",
        "--pid",
        type=arguments.process_id,
        action="append",
        metavar="PID",
        help="measure the process with this PID, or the process of this thread ID (default:"
        f" {default}){more}",
    )
    if several:
        parser.add_argument(
            "--children",
            action="store_true",
            help="also measure the child processes, existing and new, each as a process of its own",
        )
    names = parser.add_argument_group(
        "processes by name" if several else "process by name",
        "options combine with AND",
    )
    names.add_argument(
        "--comm",
        type=_name,
        metavar="NAME",
        help="select the process with this name, as in `ps -o comm`",
    )
    names.add_argument(
        "--cgroup", type=_name, metavar="PATH", help="select the process in this cgroup or below it"
    )
    names.add_argument(
        "--unit",
        type=_name,
        metavar="NAME",
        help="select the process of this systemd unit (a service unless NAME ends otherwise)",
    )
    names.add_argument(
        "--pod",
        type=_pod,
        metavar="NAMESPACE/NAME",
        help="select the process in this Kubernetes pod",
    )
    names.add_argument(
        "--container",
        type=_name,
        metavar="NAME",
        help="select the process in the container with this name or ID",
    )


def selection(args: argparse.Namespace) -> "Selection":
    """Return what is asked for. Raises UsageError for a PID together with names."""
    from kernel_delay.host.selection import Selection

    names = {name: getattr(args, name) for name in _BY_NAME}
    given = [name for name, value in names.items() if value is not None]
    if args.pid is not None and given:
        raise UsageError(f"--pid says which process it is: leave --{given[0]} out")
    return Selection(tuple(args.pid or ()), **names)


def is_given(args: argparse.Namespace) -> bool:
    """Return whether any of the options is."""
    return any(getattr(args, name) is not None for name in ("pid", *_BY_NAME))


def find(args: argparse.Namespace) -> "ProcessTarget":
    """Return the process that is asked for; say so where it was a thread's id.

    Raises NoInputError if there is none, UsageError if there are several.
    """
    from kernel_delay.host.selection import find_one

    target = find_one(selection(args))
    if target.note is not None:
        print_message(target.note)
    return target


def find_all_to_measure(args: argparse.Namespace) -> "Targets":
    """Return the processes that are asked for; otherwise as find_to_measure().

    Of several PIDs those that have exited are named, and left out.
    """
    from kernel_delay.host.selection import find_all
    from kernel_delay.host.target import Targets

    prepare = _preparation()
    found = find_all(selection(args), lambda gone: print_message(f"{gone}: measuring the others"))
    for note in filter(None, (target.note for target in found)):
        print_message(note)
    prepare(args)
    return Targets(found, getattr(args, "children", False))


def prepare_to_run(args: argparse.Namespace) -> None:
    """Check the machine, and that no process is asked for beside a program that is run."""
    if is_given(args):
        raise UsageError(
            "a PROGRAM after -- is itself measured: leave out the option that names a process"
        )
    _preparation()(args)
    user = os.environ.get("SUDO_USER")
    if args.user is None and os.geteuid() == 0 and user not in (None, "root"):
        print_message(f"{args.program[0]} runs as root; --user {user} runs it as you")


def prepare(args: argparse.Namespace) -> None:
    """Check the machine, for who finds the processes by itself."""
    _preparation()(args)


def find_to_measure(args: argparse.Namespace) -> "ProcessTarget":
    """Return the process, on a machine that lets it be measured; libbpf's log is set up.

    Raises what find() and preflight.check() raise.
    """
    prepare = _preparation()
    target = find(args)
    prepare(args)
    return target


def _preparation() -> "Callable[[argparse.Namespace], None]":
    """Return what looks at the machine; where nothing was compiled that is an error at once."""
    from kernel_delay.host import preflight
    from kernel_delay.loader.base import start_log

    def prepare(args: argparse.Namespace) -> None:
        preflight.check()
        start_log(args.debug)

    return prepare


def _name(text: str) -> str:
    """A name of something; it may be anything but nothing."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return encodable(text)


def _pod(text: str) -> str:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"must be NAMESPACE/NAME, not {text!r}")
    return _name(text)
