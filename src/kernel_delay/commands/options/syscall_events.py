"""The options that say which system calls to report one by one."""

import argparse
from typing import TYPE_CHECKING

from kernel_delay.capture import MAX_EVENTS, MAX_STACKS, STACK_BYTES
from kernel_delay.commands.options import arguments
from kernel_delay.commands.options.outputs import add_folded
from kernel_delay.errors import UsageError

if TYPE_CHECKING:
    from kernel_delay.capture.plan import EventPlan
    from kernel_delay.host.syscalls import Syscall


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    events = parser.add_argument_group("single system calls with stacks")
    events.add_argument(
        "-s",
        "--syscall-events",
        dest="event_ns",
        type=arguments.nanoseconds,
        nargs="?",
        const=0,
        metavar="DURATION_NS",
        help="report each system call, or each that takes at least DURATION_NS, for example 1ms",
    )
    events.add_argument(
        "--skip-syscall-poll-events",
        action="store_true",
        help="leave out polls: poll, ppoll, select, pselect6, epoll_wait, epoll_pwait,"
        " epoll_pwait2",
    )
    events.add_argument(
        "--syscall-filter", type=_names, metavar="NAME,…", help="report only these system calls"
    )
    events.add_argument(
        "--skip-syscalls",
        type=_names,
        default=(),
        metavar="NAME,…",
        help="report all system calls except these",
    )
    events.add_argument(
        "--max-events",
        type=arguments.count,
        default=MAX_EVENTS,
        metavar="N",
        help="number of calls to keep; the longest are kept (default: %(default)s)",
    )
    events.add_argument(
        "--stack-trace-size",
        dest="max_stacks",
        type=arguments.stack_count,
        default=MAX_STACKS,
        metavar="N",
        help="number of different stacks to keep; 0: no stacks (default: %(default)s)",
    )
    events.add_argument(
        "--stack-mode",
        choices=("auto", "table", "dwarf", "fp", "none"),
        default="dwarf",
        help="how to take user stacks: unwind a copy (dwarf), walk the stack by tables"
        " (table), walk and copy what is incomplete (auto), follow frame pointers (fp), or none"
        " (default: %(default)s)",
    )
    events.add_argument(
        "--stack-bytes",
        type=arguments.stack_bytes,
        default=STACK_BYTES,
        metavar="N",
        help="number of bytes to copy of a stack (default: %(default)s)",
    )
    add_source(events)
    add_folded(events)
    events.add_argument(
        "--buffer-page-count",
        dest="buffer_pages",
        type=arguments.buffer_pages,
        metavar="N",
        help="size of the buffer for calls, in pages, rounded up to a power of two."
        " Default: 16 MiB for each CPU, 4 to 256 MiB, at most 1/64 of the available"
        " memory",
    )


def add_source(parser: argparse._ActionsContainer) -> None:
    """Add the option for more than the functions of a stack."""
    parser.add_argument(
        "--source",
        action="store_true",
        help="report inlined functions and source lines, if there is debug information",
    )


def event_plan(args: argparse.Namespace) -> "EventPlan | None":
    """Return the plan that the options ask for, None if they ask for no events.

    Raises UsageError where a system call has no such name.
    """
    if args.event_ns is None:
        for option, value in (
            ("--folded", args.folded),
            ("--syscall-filter", args.syscall_filter),
            ("--skip-syscalls", args.skip_syscalls),
        ):
            if value:
                raise UsageError(f"{option} needs --syscall-events")
        return None
    from kernel_delay.capture.plan import EventPlan
    from kernel_delay.host.kernel_names import POLLS

    skipped = _calls(args.skip_syscalls)
    if args.skip_syscall_poll_events:
        skipped |= _calls(POLLS, known=False)
    return EventPlan(
        shortest_ns=args.event_ns,
        syscalls=None if args.syscall_filter is None else _calls(args.syscall_filter),
        skipped=skipped,
        stack_mode=args.stack_mode if args.max_stacks else "none",
        stack_bytes=args.stack_bytes,
        max_stacks=args.max_stacks,
        max_events=args.max_events,
        buffer_pages=args.buffer_pages,
        source=args.source,
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"must be names with commas between them, not {text!r}")
    return names


def _calls(names: tuple[str, ...], *, known: bool = True) -> "frozenset[Syscall]":
    """Return the calls of these names, of all ABIs; one that none has is an error if `known`."""
    from kernel_delay.host.syscalls import syscalls

    calls: set[Syscall] = set()
    for name in names:
        found = syscalls(name)
        if known and not found:
            raise _unknown(name)
        calls |= found
    return frozenset(calls)


def _unknown(name: str) -> UsageError:
    from kernel_delay.errors import hint, similar_names
    from kernel_delay.host.syscalls import syscall_names

    likely = hint(similar_names(name, syscall_names()))
    return UsageError(f"there is no system call {name!r} on this machine{likely}")
