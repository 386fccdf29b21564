"""`kernel-delay upcall-cost`: what a packet's trip through ovs-vswitchd costs."""

import argparse
import os
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.errors import InputError, UsageError
from kernel_delay.printable import printable
from kernel_delay.reporters.messages import tell, tell_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kernel_delay.model import RecordingHeader
    from kernel_delay.ovs.monitors.upcall_events import UpcallEvents
    from kernel_delay.ovs.upcalls import Event
    from kernel_delay.ovs.upcalls.port_names import PortName
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.writer import RecordingWriter
    from kernel_delay.reporters.page.monitors import CostsPage

    Page = page_options.EventPage[CostsPage]

# The analysis needs all of them at once, in about a kilobyte each.
MOST_EVENTS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: from where events come, which of them, and what is printed of them."""
    target_options.add_arguments(parser)
    parser.add_argument(
        "-r",
        "--read-events",
        type=Path,
        metavar="FILE",
        help="analyse the events of FILE in place of a process's: a recording, or what Open"
        " vSwitch's upcall_cost.py wrote",
    )
    recording_options.add_arguments(parser, "-w", "--write-events")
    page_options.add_html(parser)
    parser.add_argument(
        "-s",
        "--stop",
        type=arguments.count,
        metavar="N",
        help="stop after N events (default: at Ctrl-C)",
    )
    output_options.add_quiet(parser, "don't print the events")
    add_report_arguments(parser)
    arguments.add_capture_sizes(parser, "-P", 256)
    arguments.add_buffer_pages(parser)


def add_report_arguments(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """The options that a report from a recording has too; -q is every command's."""
    return [
        parser.add_argument(
            "-b",
            "--histogram-buckets",
            type=arguments.bucket_count,
            default=20,
            metavar="N",
            help="buckets of each histogram (default: %(default)s)",
        ),
        parser.add_argument(
            "--handler-filter",
            metavar="NAME[,NAME...]",
            help="only what these handler threads received, by their names",
        ),
        parser.add_argument("--sets", action="store_true", help="print the events of each upcall"),
    ]


def run(args: argparse.Namespace) -> int:
    """Collect events, from a process or a file, join them into sets, and report their costs."""
    if args.read_events is None:
        _report_collected(args)
        return os.EX_OK
    from kernel_delay.ovs.upcalls.script_events import is_of_script
    from kernel_delay.recording.reader import open_recording

    if target_options.is_given(args) or args.recording_file is not None:
        raise UsageError("--read-events takes neither --pid nor --write-events")
    if is_of_script(args.read_events):
        _report_script(args)
        return os.EX_OK
    with open_recording(args.read_events) as recording:
        header = recording.header
        if header.command != "upcall-cost":
            raise InputError(
                f"{recording.name!r} is of {header.command}, not of upcall-cost:"
                " kernel-delay report reads it"
            )
        where = f"{printable(header.host)}, Linux {printable(header.kernel)}"
        print(f"- Reading events from {str(args.read_events)!r} ({where})...")
        damage = report_recording(recording, args, args.stop)
    if damage is not None:
        raise damage
    return os.EX_OK


def _report_script(args: argparse.Namespace) -> None:
    """Report what Open vSwitch's own script wrote; raise why that is not all, if it is not."""
    from kernel_delay.ovs.upcalls.script_events import ScriptEvents

    print(f"- Reading events of upcall_cost.py from {str(args.read_events)!r}...")
    page = _open_page(args, lambda: None)
    collection = _Collection(args.quiet, args.stop)
    damage = None
    with ScriptEvents(args.read_events) as events:
        try:
            collection.take(events)
        except InputError as error:
            damage = error
    if page is not None and damage is not None:
        page.note(str(damage))
    _report(collection.events, events.missed, args, page)
    if events.unknown_ports:
        tell(f"of {events.unknown_ports} upcalls of the kernel the script did not know the port")
    if damage is not None:
        raise damage


def report_recording(
    recording: "RecordingReader", args: argparse.Namespace, most: int | None = None
) -> "InputError | None":
    """Print what run() printed when it was recorded; return why it is not all, None if it is.

    Of its events the first `most` are taken.
    """
    from kernel_delay.recording.reader import UntilDamage
    from kernel_delay.recording.records import Note, UpcallEvents

    reading = UntilDamage(recording)
    page = _open_page(args, lambda: recording.header)
    collection = _Collection(args.quiet, most)
    more = True
    for record in reading:
        match record:
            case UpcallEvents():
                more = more and collection.take(record.events)
            case Note():
                tell(record.text)
                if page is not None:
                    page.note(record.text)
    if page is not None and reading.damage is not None:
        page.note(str(reading.damage))
    _report(collection.events, recording.trailer.lost if recording.trailer else {}, args, page)
    return reading.damage


def _report_collected(args: argparse.Namespace) -> None:
    # Only a command that runs pays for what it imports.
    from kernel_delay.loader.follow import rounds
    from kernel_delay.loader.waiting import watch
    from kernel_delay.ovs.monitors.upcall_events import UpcallEvents, UpcallPlan

    target = target_options.find_to_measure(args)
    plan = UpcallPlan(
        args.packet_size,
        args.flow_key_size,
        whole_trip=True,
        ring_bytes=arguments.buffer_bytes(args.buffer_page_count),
    )
    with ExitStack() as stack:
        header = partial(recording_options.header_of, "upcall-cost", target)
        recording = recording_options.open_writer(args, header, stack)
        page = _open_page(args, header)
        source = stack.enter_context(UpcallEvents(target.pid, plan))
        waiter = stack.enter_context(watch(target.pid))
        for note in source.notes:
            recording_options.noting(recording)(note)
            if page is not None:
                page.note(note)
        collection = _Collection(args.quiet, args.stop)
        tell(f"collecting events of {target.comm} ({target.pid}); Ctrl-C ends it")
        last = None
        for last in rounds(waiter, None):
            if last == "exit":
                tell_exit(target.pid)
            if not _take(source, collection, recording):
                last = "time"
                break
        missed = source.missed()
        if recording is not None:
            recording.finish("done" if last is None or last == "time" else last, missed)
    _report(collection.events, missed, args, page)


def _take(
    source: "UpcallEvents", collection: "_Collection", recording: "RecordingWriter | None"
) -> bool:
    """Take what has come; False when there is as much as was asked for."""
    from kernel_delay.recording.records import EVENTS_AT_ONCE
    from kernel_delay.recording.records import UpcallEvents as RecordedEvents

    so_far = len(collection.events)
    more = collection.take(source.take())
    if recording is not None:
        since_epoch_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for first in range(so_far, len(collection.events), EVENTS_AT_ONCE):
            events = tuple(collection.events[first : first + EVENTS_AT_ONCE])
            recording.upcall_events(RecordedEvents(events, since_epoch_ns))
    sys.stdout.flush()
    return more


class _Collection:
    """Keeps the events for the analysis; prints each as it comes."""

    def __init__(self, quiet: bool, most: int | None) -> None:
        from kernel_delay.reporters.upcall_cost import EVENT_HEADER

        self.events: list[Event] = []
        self._quiet = quiet
        self._most = min(most or MOST_EVENTS, MOST_EVENTS)
        if not self._quiet:
            print(EVENT_HEADER, flush=True)

    def take(self, events: "Iterable[Event | PortName]") -> bool:
        """Take some; False when there are as many as were asked for."""
        from kernel_delay.ovs.upcalls.port_names import PortName
        from kernel_delay.reporters.upcall_cost import event_line

        for event in events:
            if isinstance(event, PortName):
                continue
            self.events.append(event)
            if not self._quiet:
                print(event_line(event))
            if len(self.events) == self._most:
                if self._most == MOST_EVENTS:
                    tell(f"stopped after {MOST_EVENTS:,} events, the most that are analysed")
                return False
        return True


def _open_page(
    args: argparse.Namespace, header: "Callable[[], RecordingHeader | None]"
) -> "Page | None":
    """The page that is asked for; None if none is."""
    if args.html is None:
        return None
    from kernel_delay.reporters.page.monitors import CostsPage

    return page_options.EventPage(args.html, "upcall-cost", header(), CostsPage())


def _report(
    events: "Sequence[Event]",
    missed: "Mapping[str, int]",
    args: argparse.Namespace,
    page: "Page | None",
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
    summary = render(joined, analysis, missed, args.histogram_buckets)
    print(summary)
    if page is not None:
        for found in analysis.sets:
            page.contents.add(found)
        # The summary's first table has what was missed.
        page.finish(summary, ())
