"""`kernel-delay upcall-cost`: what a packet's trip through ovs-vswitchd costs."""

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import target as target_options
from kernel_delay.errors import UsageError
from kernel_delay.printable import printable
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernel_delay.ovs.monitors.upcall_events import UpcallEvents
    from kernel_delay.ovs.upcalls import Event, RecordingWriter

# The analysis needs all of them at once, in about a kilobyte each.
MOST_EVENTS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: from where events come, which of them, and what is told of them."""
    target_options.add_arguments(parser)
    parser.add_argument(
        "-r",
        "--read-events",
        type=Path,
        metavar="FILE",
        help="analyse the events in FILE, which -w wrote, in place of a process's",
    )
    parser.add_argument(
        "-w", "--write-events", type=Path, metavar="FILE", help="write the events to FILE"
    )
    parser.add_argument(
        "-s",
        "--stop",
        type=arguments.count,
        metavar="N",
        help="stop after N events (default: at Ctrl-C)",
    )
    parser.add_argument(
        "-b",
        "--histogram-buckets",
        type=arguments.bucket_count,
        default=20,
        metavar="N",
        help="buckets of each histogram (default: %(default)s)",
    )
    parser.add_argument(
        "--handler-filter",
        metavar="NAME[,NAME...]",
        help="only what these handler threads received, by their names",
    )
    parser.add_argument("--sets", action="store_true", help="print the events of each upcall")
    parser.add_argument("-q", "--quiet", action="store_true", help="don't print the events")
    arguments.add_capture_sizes(parser, "-P")


def run(args: argparse.Namespace) -> int:
    """Collect events, from a process or a file, join them into sets, and report their costs."""
    if args.read_events is not None:
        events, missed = _read(args)
    else:
        events, missed = _collect(args)
    _report(events, missed, args)
    return os.EX_OK


def _read(args: argparse.Namespace) -> "tuple[Sequence[Event], Mapping[str, int]]":
    from kernel_delay.ovs.upcalls import read_recording
    from kernel_delay.reporters.upcall_cost import EVENT_HEADER, event_line

    if args.pid is not None or args.write_events is not None:
        raise UsageError("--read-events takes neither --pid nor --write-events")
    recording = read_recording(args.read_events)
    where = f"{printable(recording.host)}, Linux {printable(recording.kernel)}"
    print(f"- Reading events from {str(args.read_events)!r} ({where})...")
    events = recording.events[: args.stop]
    if not args.quiet:
        print("\n".join((EVENT_HEADER, *map(event_line, events))))
    if recording.cut is not None:
        tell(f"{args.read_events} is read as far as it goes: {recording.cut}")
    return events, recording.missed


def _collect(args: argparse.Namespace) -> "tuple[Sequence[Event], Mapping[str, int]]":
    # Only a command that runs pays for what it imports.
    from kernel_delay.loader.follow import rounds
    from kernel_delay.loader.waiting import watch
    from kernel_delay.ovs.monitors.upcall_events import UpcallEvents, UpcallPlan
    from kernel_delay.ovs.upcalls import RecordingWriter

    target = target_options.find_to_measure(args)
    plan = UpcallPlan(args.packet_size, args.flow_key_size, whole_trip=True)
    with ExitStack() as stack:
        file = None
        if args.write_events is not None:
            uname = os.uname()
            file = stack.enter_context(
                RecordingWriter(args.write_events, uname.nodename, uname.release)
            )
        source = stack.enter_context(UpcallEvents(target.pid, plan))
        waiter = stack.enter_context(watch(target.pid))
        for note in source.notes:
            tell(note)
        collection = _Collection(file, args)
        tell(f"collecting events of {target.comm} ({target.pid}); Ctrl-C ends it")
        for ended in rounds(waiter, None):
            if ended == "exit":
                tell(f"process {target.pid} exited")
            if not collection.take(source):
                break
        missed = source.missed()
        if file is not None:
            file.finish(missed)
    return collection.events, missed


class _Collection:
    """Keeps the events for the analysis; prints and writes each as it comes."""

    def __init__(self, file: "RecordingWriter | None", args: argparse.Namespace) -> None:
        from kernel_delay.reporters.upcall_cost import EVENT_HEADER

        self.events: list[Event] = []
        self._file = file
        self._quiet = args.quiet
        self._most = min(args.stop or MOST_EVENTS, MOST_EVENTS)
        if not self._quiet:
            print(EVENT_HEADER, flush=True)

    def take(self, source: "UpcallEvents") -> bool:
        """Take what has come; False when there are as many as were asked for."""
        from kernel_delay.ovs.upcalls.port_names import PortName
        from kernel_delay.reporters.upcall_cost import event_line

        for event in source.take():
            if isinstance(event, PortName):
                continue
            self.events.append(event)
            if self._file is not None:
                self._file.write(event)
            if not self._quiet:
                print(event_line(event))
            if len(self.events) == self._most:
                if self._most == MOST_EVENTS:
                    tell(f"stopped after {MOST_EVENTS:,} events, the most that are analysed")
                return False
        sys.stdout.flush()
        return True


def _report(
    events: "Sequence[Event]", missed: "Mapping[str, int]", args: argparse.Namespace
) -> None:
    from kernel_delay.ovs.upcalls import analyse, join, of_handlers
    from kernel_delay.reporters.upcall_cost import render, set_lines

    print(f"- Analyzing results ({len(events)} events)...\n")
    if args.handler_filter is not None:
        events = of_handlers(events, args.handler_filter.split(","))
    joined = join(events)
    analysis = analyse(joined)
    if args.sets:
        for found in joined.sets:
            print("\n".join(set_lines(found)))
        print()
    print(render(joined, analysis, missed, args.histogram_buckets))
