"""`kernel-delay bridge-loop`: how long each pass of ovs-vswitchd's main loop runs and waits."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import target as target_options
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.ovs.bridge_loop import BridgeLoop
    from kernel_delay.ovs.monitors.loop_events import LoopEvents


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: how long, and how much to print."""
    target_options.add_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print the summary only")
    parser.add_argument(
        "--time",
        dest="time_ns",
        type=arguments.duration_ns,
        metavar="SECONDS",
        help="stop after so long (default: at Ctrl-C)",
    )
    parser.add_argument(
        "--count", type=arguments.count, metavar="N", help="stop after N passes (default: never)"
    )
    parser.add_argument(
        "--log2", action="store_true", help="histograms by powers of two, not linear ones"
    )


def run(args: argparse.Namespace) -> int:
    """Follow the loop, a line for each of its passes and waits, and then sum up."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.ovs.bridge_loop import BridgeLoop
    from kernel_delay.ovs.monitors.loop_events import LoopEvents
    from kernel_delay.reporters import bridge_loop

    target = target_options.find_to_measure(args)
    loop = BridgeLoop()
    with LoopEvents(target.pid) as events:
        tell(f"tracing the main loop of {target.comm} ({target.pid}); Ctrl-C ends it")
        ended = _follow(events, loop, target.pid, args)
        lost = events.lost()
    print(bridge_loop.render(loop, log2=args.log2))
    if lost:
        print(f"{lost} events were lost: this process was kept from its CPU for too long")
    if ended == "exit":
        tell(f"process {target.pid} exited")
    return os.EX_OK


def _follow(
    events: "LoopEvents", loop: "BridgeLoop", pid: int, args: argparse.Namespace
) -> "Ended":
    """Take events until the end; returns what ended it."""
    from kernel_delay.loader.follow import rounds
    from kernel_delay.loader.waiting import watch

    with watch(pid) as waiter:
        for ended in rounds(waiter, args.time_ns):
            if _take(events, loop, args) and ended is None:
                continue
            return ended or "time"
    raise AssertionError("rounds() ends with what ended it")


def _take(events: "LoopEvents", loop: "BridgeLoop", args: argparse.Namespace) -> bool:
    """Count and print what has come; False when that is as many passes as were asked for."""
    from kernel_delay.reporters import bridge_loop

    for event, lost_before in events.take():
        if lost_before:
            loop.lost()
        interval = loop.add(event)
        if interval is not None and not args.quiet:
            print(bridge_loop.interval_line(interval))
        if args.count is not None and loop.passes >= args.count:
            return False
    sys.stdout.flush()
    return True
