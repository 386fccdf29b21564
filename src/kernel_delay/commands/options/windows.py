"""The options that say which windows to measure."""

import argparse
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel_delay.capture import LONGEST_S
from kernel_delay.commands.options import arguments
from kernel_delay.errors import UsageError
from kernel_delay.formatting import NS_PER_S

if TYPE_CHECKING:
    from kernel_delay.capture.plan import TriggerPoints, WindowPlan
    from kernel_delay.probes.kernel import KernelFunctions

TRIGGER_HELP = """\
TRIGGER is one of these, as `kernel-delay probes` lists them:
u:PROVIDER:PROBE         a USDT probe
t:SYSTEM:EVENT           a kernel tracepoint
k:FUNCTION               a kernel function is entered (kprobe)
kr:FUNCTION              a kernel function returns (kretprobe)
up:[LIBRARY:]FUNCTION    a function of the process is entered (uprobe)
ur:[LIBRARY:]FUNCTION    a function of the process returns (uretprobe)"""

SAMPLE_TIME_NS = 500_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options; those with times leave nanoseconds in the namespace."""
    parser.add_argument(
        "--sample-time",
        dest="sample_time_ns",
        type=arguments.duration_ns,
        metavar="SECONDS",
        help="length of the window (default: 0.5; for a PROGRAM: until it ends)",
    )
    parser.add_argument(
        "--sample-count",
        type=arguments.count,
        default=1,
        metavar="N",
        help="number of samples (default: %(default)s)",
    )
    parser.add_argument(
        "--sample-interval",
        dest="sample_interval_ns",
        type=arguments.pause_ns,
        default="0",
        metavar="SECONDS",
        help="pause between two samples (default: %(default)s)",
    )
    triggers = parser.add_argument_group("windows between events", TRIGGER_HELP)
    triggers.add_argument(
        "--start-trigger", metavar="TRIGGER", help="open the window when TRIGGER is hit"
    )
    triggers.add_argument(
        "--stop-trigger", metavar="TRIGGER", help="close the window when TRIGGER is hit"
    )
    triggers.add_argument(
        "--trigger-delta",
        dest="trigger_delta_ns",
        type=arguments.nanoseconds,
        nargs="?",
        const=0,
        default=0,
        metavar="NS",
        help="skip windows between two triggers that are shorter than NS (without NS: 0)",
    )
    triggers.add_argument(
        "--trigger-thread",
        choices=("any", "same"),
        default="any",
        help="which thread's stop trigger closes a window: any thread, or the thread that"
        " opened the window (default: %(default)s)",
    )
    triggers.add_argument(
        "--timeout",
        dest="timeout_ns",
        type=arguments.duration_ns,
        metavar="SECONDS",
        help="stop with exit code 75 if a trigger is not hit in this time (default: wait)",
    )


def window_plan(args: argparse.Namespace, pid: int, *, several: bool = False) -> "WindowPlan":
    """Return the plan that the options ask for, its triggers found in process `pid`.

    Raises UsageError, or what resolve() raises, where a trigger is none; and for one in user code
    where processes are `several`: each may be at another place there.
    """
    from kernel_delay.capture.plan import WindowPlan

    functions = functools.cache(_kernel_functions)
    start = _trigger(args.start_trigger, pid, functions)
    stop = _trigger(args.stop_trigger, pid, functions)
    if several:
        _check_in_kernel(start, stop)
    if not (start and stop):
        if args.trigger_delta_ns:
            raise UsageError("--trigger-delta needs --start-trigger and --stop-trigger")
        if args.trigger_thread == "same":
            raise UsageError("--trigger-thread same needs --start-trigger and --stop-trigger")
    if not (start or stop) and args.timeout_ns is not None:
        raise UsageError("--timeout needs --start-trigger or --stop-trigger")
    return WindowPlan(
        sample_time_ns=args.sample_time_ns or SAMPLE_TIME_NS,
        count=args.sample_count,
        interval_ns=args.sample_interval_ns,
        start=start,
        stop=stop,
        shortest_ns=args.trigger_delta_ns,
        same_thread=args.trigger_thread == "same",
        timeout_ns=args.timeout_ns,
    )


def _check_in_kernel(*triggers: "TriggerPoints | None") -> None:
    from kernel_delay.probes import UserProbe

    for trigger in filter(None, triggers):
        if any(isinstance(point, UserProbe) for point in trigger.points):
            raise UsageError(
                f"{trigger.text} is in the code of one process: for several processes, give"
                " a trigger in the kernel"
            )


def program_plan(args: argparse.Namespace) -> "WindowPlan":
    """Return the plan for a program that is run: from its first instruction on, to its end.

    Raises UsageError for options of several windows, and of those that events open and close.
    """
    from kernel_delay.capture.plan import EXEC, WindowPlan

    others = {
        "--sample-count": args.sample_count != 1,
        "--sample-interval": args.sample_interval_ns != 0,
        "--start-trigger": args.start_trigger is not None,
        "--stop-trigger": args.stop_trigger is not None,
        "--trigger-delta": args.trigger_delta_ns != 0,
        "--trigger-thread": args.trigger_thread != "any",
        "--timeout": args.timeout_ns is not None,
    }
    for option, is_given in others.items():
        if is_given:
            raise UsageError(
                f"a PROGRAM is measured in one window, from its start: leave {option} out"
            )
    longest_ns = LONGEST_S * NS_PER_S
    return WindowPlan(sample_time_ns=args.sample_time_ns or longest_ns, start=EXEC)


def trigger_points(text: str, pid: int) -> "TriggerPoints":
    """Return where a trigger is in process `pid`; raises what window_plan() does."""
    found = _trigger(text, pid, _kernel_functions)
    assert found is not None
    return found


def _kernel_functions() -> "KernelFunctions":
    from kernel_delay.probes.kernel import kernel_functions

    return kernel_functions()


def _trigger(
    text: str | None, pid: int, functions: "Callable[[], KernelFunctions]"
) -> "TriggerPoints | None":
    if text is None:
        return None
    from kernel_delay.capture.plan import TriggerPoints
    from kernel_delay.probes.resolve import resolve
    from kernel_delay.probes.triggers import parse_trigger

    return TriggerPoints(text=text, points=resolve(parse_trigger(text), pid, functions))
