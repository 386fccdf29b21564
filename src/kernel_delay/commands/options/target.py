"""Which process: the options, and what must hold before anything is attached to it."""

import argparse
import os
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.errors import UsageError
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernel_delay.host.selection import Selection
    from kernel_delay.host.target import ProcessTarget, Targets

_BY_NAME = ("comm", "cgroup", "unit", "pod", "container")


def add_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """The options that name the process, or `several`; selection() has what they say."""
    more = "; may be given more than once" if several else ""
    parser.add_argument(
        "-p",
        "--pid",
        type=arguments.process_id,
        action="append",
        metavar="PID",
        help=f"the process, or one of its threads (default: the one named ovs-vswitchd){more}",
    )
    if several:
        parser.add_argument(
            "--children",
            action="store_true",
            help="measure what the process has forked and forks too, each on its own",
        )
    names = parser.add_argument_group(
        "processes by name, one or more" if several else "the process by name",
        "of several of these all must hold",
    )
    names.add_argument("--comm", type=_name, metavar="NAME", help="the one that is called NAME")
    names.add_argument(
        "--cgroup", type=_name, metavar="PATH", help="the one in the cgroup PATH, or below it"
    )
    names.add_argument(
        "--unit", type=_name, metavar="NAME", help="the one in this unit of systemd, as a service"
    )
    names.add_argument(
        "--pod", type=_pod, metavar="NAMESPACE/NAME", help="the one in this pod of Kubernetes"
    )
    names.add_argument(
        "--container", type=_name, metavar="NAME", help="the one in this container, or of this ID"
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
        tell(target.note)
    return target


def find_all_to_measure(args: argparse.Namespace) -> "Targets":
    """Return the processes that are asked for; otherwise as find_to_measure().

    Of several PIDs those that have exited are told, and left out.
    """
    from kernel_delay.host.selection import find_all
    from kernel_delay.host.target import Targets

    prepare = _preparation()
    found = find_all(selection(args), lambda gone: tell(f"{gone}: measuring the others"))
    for note in filter(None, (target.note for target in found)):
        tell(note)
    prepare(args)
    return Targets(found, args.children)


def prepare_to_run(args: argparse.Namespace) -> None:
    """Check the machine, and that no process is asked for beside a program that is run."""
    if is_given(args):
        raise UsageError("a PROGRAM after -- is what is measured: leave the process out")
    _preparation()(args)
    user = os.environ.get("SUDO_USER")
    if args.user is None and os.geteuid() == 0 and user not in (None, "root"):
        tell(f"{args.program[0]} runs as root; --user {user} runs it as you")


def find_to_measure(args: argparse.Namespace) -> "ProcessTarget":
    """Return the process, on a machine that lets it be measured; libbpf's log is set up.

    Raises what find() and preflight.check() raise.
    """
    prepare = _preparation()
    target = find(args)
    prepare(args)
    return target


def _preparation() -> "Callable[[argparse.Namespace], None]":
    """Return what looks at the machine; where nothing was compiled that is told at once."""
    from kernel_delay.host import preflight
    from kernel_delay.libbpf import start_log

    def prepare(args: argparse.Namespace) -> None:
        preflight.check()
        start_log(args.debug)

    return prepare


def _name(text: str) -> str:
    """A name of something; it may be anything but nothing."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return os.fsencode(text).decode(errors="backslashreplace")


def _pod(text: str) -> str:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"must be NAMESPACE/NAME, not {text!r}")
    return _name(text)
