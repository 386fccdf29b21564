"""`kernel-delay upcall-cost`: what a packet's trip through ovs-vswitchd costs."""

import argparse
import os
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands import monitoring
from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.errors import InputError, UsageError
from kernel_delay.printable import printable
from kernel_delay.reporters.messages import print_exit, print_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kernel_delay.host.target import ProcessTarget
    from kernel_delay.model import RecordingHeader
    from kernel_delay.ovs.monitors.upcall_events import UpcallEvents
    from kernel_delay.ovs.upcalls import Event, Joined
    from kernel_delay.ovs.upcalls.port_names import PortName
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.writer import RecordingWriter

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
        help="analyse the events in FILE instead of a process: a recording, or a file of"
        " Open vSwitch's upcall_cost.py",
    )
    recording_options.add_arguments(parser, "-w", "--write-events")
    page_options.add_html(parser)
    output_options.add_json(parser, "upcall, at the end")
    parser.add_argument(
        "-s",
        "--stop",
        type=_event_count,
        metavar="N",
        help=f"stop after N events, at most {MOST_EVENTS:,} (default: at Ctrl-C, or after"
        " that many)",
    )
    output_options.add_quiet(parser, "do not print the events")
    add_report_arguments(parser)
    arguments.add_capture_sizes(parser, "-P", 256)
    arguments.add_buffer_pages(parser)
    arguments.add_time(parser)


def add_report_arguments(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """The options that a report from a recording has too; -q is every command's."""
    return [
        parser.add_argument(
            "-b",
            "--histogram-buckets",
            type=arguments.bucket_count,
            default=20,
            metavar="N",
            help="number of buckets of each histogram (default: %(default)s)",
        ),
        parser.add_argument(
            "--handler-filter",
            metavar="NAME[,NAME...]",
            help="only analyse upcalls that these handler threads received",
        ),
        parser.add_argument("--sets", action="store_true", help="print the events of each upcall"),
    ]


def _event_count(text: str) -> int:
    """How many events to take: no more than are analysed."""
    number = arguments.count(text)
    if number > MOST_EVENTS:
        raise argparse.ArgumentTypeError(f"must be at most {MOST_EVENTS:,}, not {text!r}")
    return number


def run(args: argparse.Namespace) -> int:
    """Collect events, from a process or a file, join them into sets, and report their costs."""
    if args.read_events is None:
        _report_collected(args)
        return os.EX_OK
    from kernel_delay.ovs.upcalls.script_events import is_of_script

    if target_options.is_given(args) or args.recording_file is not None:
        raise UsageError("--read-events takes neither --pid nor --write-events")
    if args.time_ns is not None:
        raise UsageError("--read-events takes no --time: -s stops after so many events")
    output_options.refuse_inputs([str(args.read_events)], [args.json_file, args.html])
    report = _report_script if is_of_script(args.read_events) else _report_recorded
    damage = report(args)
    if damage is not None:
        raise damage
    return os.EX_OK


def report_recording(recording: "RecordingReader", args: argparse.Namespace) -> "InputError | None":
    """Print what run() printed when it was recorded; return why it is not all, None if it is."""
    with ExitStack() as stack:
        return _replay(recording, _UpcallReport(args, lambda: recording.header, stack))


def _report_script(args: argparse.Namespace) -> InputError | None:
    """Report what Open vSwitch's own script wrote; return why that is not all, None if it is."""
    from kernel_delay.ovs.upcalls.script_events import ScriptEvents

    with ExitStack() as stack:
        report = _UpcallReport(args, lambda: None, stack)
        report.say(f"- Reading events of upcall_cost.py from {str(args.read_events)!r}...")
        report.begin(args.stop)
        damage = None
        with ScriptEvents(args.read_events) as events:
            try:
                report.take(events)
            except InputError as error:
                damage = error
        if damage is not None:
            report.note(str(damage))
        report.finish(events.missed)
        if events.unknown_ports:
            print_message(
                f"of {events.unknown_ports} upcalls of the kernel the script did not know the port"
            )
    return damage


def _report_recorded(args: argparse.Namespace) -> InputError | None:
    """Report from a recording of this command; return why it is not all, None if it is."""
    from kernel_delay.recording.reader import open_recording

    with open_recording(args.read_events) as recording, ExitStack() as stack:
        header = recording.header
        if header.command != "upcall-cost":
            raise InputError(
                f"{recording.name!r} is a recording of {header.command}, not of upcall-cost:"
                " read it with kernel-delay report"
            )
        report = _UpcallReport(args, lambda: header, stack)
        where = f"{printable(header.host)}, Linux {printable(header.kernel)}"
        report.say(f"- Reading events from {str(args.read_events)!r} ({where})...")
        return _replay(recording, report, args.stop)


def _replay(
    recording: "RecordingReader", report: "_UpcallReport", most: int | None = None
) -> "InputError | None":
    """Report what was recorded, of its events the first `most`; return why it is not all."""
    from kernel_delay.recording.reader import IntactRecords
    from kernel_delay.recording.records import Note, UpcallEvents

    reading = IntactRecords(recording)
    report.begin(most)
    more = True
    for record in reading:
        match record:
            case UpcallEvents():
                more = more and report.take(record.events)
            case Note():
                print_message(record.text)
                report.note(record.text)
    if reading.damage is not None:
        report.note(str(reading.damage))
    report.finish(recording.trailer.lost if recording.trailer else {})
    return reading.damage


def _report_collected(args: argparse.Namespace) -> None:
    target = target_options.find_to_measure(args)
    with ExitStack() as stack:
        header = partial(recording_options.header_of, "upcall-cost", target)
        report = _UpcallReport(args, header, stack)
        # Nothing of it runs in the kernel any more while the events are analysed.
        with ExitStack() as collecting:
            recording = recording_options.open_writer(args, header, collecting)
            missed = _collect(args, target, report, recording, collecting)
        report.finish(missed)


def _collect(
    args: argparse.Namespace,
    target: "ProcessTarget",
    report: "_UpcallReport",
    recording: "RecordingWriter | None",
    stack: ExitStack,
) -> "Mapping[str, int]":
    """Take events until the end; returns what was missed."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.loader.follow import rounds
    from kernel_delay.loader.waiting import watch
    from kernel_delay.ovs.monitors.upcall_events import UpcallEvents, UpcallPlan

    ring_bytes = arguments.buffer_bytes(args.buffer_page_count)
    plan = UpcallPlan(args.packet_size, args.flow_key_size, whole_trip=True, ring_bytes=ring_bytes)
    source = stack.enter_context(UpcallEvents(target.pid, plan))
    monitoring.keep_rights(args)
    waiter = stack.enter_context(watch(target.pid))
    for note in source.notes:
        recording_options.noting(recording)(note)
        report.note(note)
    report.begin(args.stop)
    print_message(f"collecting events of {target.comm} ({target.pid}); Ctrl-C ends it")
    last = None
    for last in rounds(waiter, args.time_ns):
        if last == "exit":
            print_exit(target.pid)
        if not _take(source, report, recording):
            last = "time"
            break
    missed = source.missed()
    recording_options.finish(recording, last or "time", missed)
    return missed


def _take(
    source: "UpcallEvents", report: "_UpcallReport", recording: "RecordingWriter | None"
) -> bool:
    """Take what has come; False when there is as much as was asked for."""
    from kernel_delay.recording.records import EVENTS_AT_ONCE
    from kernel_delay.recording.records import UpcallEvents as RecordedEvents

    so_far = len(report.events)
    more = report.take(source.take())
    if recording is not None:
        since_epoch_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for first in range(so_far, len(report.events), EVENTS_AT_ONCE):
            events = tuple(report.events[first : first + EVENTS_AT_ONCE])
            recording.upcall_events(RecordedEvents(events, since_epoch_ns))
    return more


class _UpcallReport:
    """Keeps the events for the analysis, and prints each as it comes; then their costs, or JSON."""

    def __init__(
        self,
        args: argparse.Namespace,
        header: "Callable[[], RecordingHeader | None]",
        stack: ExitStack,
    ) -> None:
        self.events: list[Event] = []
        self._args = args
        self._most, self._asked = MOST_EVENTS, False
        self._json = output_options.open_json(args.json_file, stack)
        self._text = output_options.has_text(args.json_file)
        self._lines = self._text and not args.quiet
        self._page = None
        if args.html is not None:
            from kernel_delay.reporters.page.monitors import CostsPage

            self._page = page_options.EventPage(args.html, "upcall-cost", header(), CostsPage())

    def say(self, line: str) -> None:
        """Print a line, where there is text."""
        if self._text:
            print(line, flush=True)

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read, that was printed already."""
        if self._page is not None:
            self._page.note(text)

    def begin(self, most: int | None) -> None:
        """Print what is above all events; of these `most` are taken."""
        from kernel_delay.reporters.upcall_cost import EVENT_HEADER

        self._most, self._asked = most or MOST_EVENTS, most is not None
        if self._lines:
            self.say(EVENT_HEADER)

    def take(self, events: "Iterable[Event | PortName]") -> bool:
        """Take some; False when there are as many as were asked for."""
        from kernel_delay.ovs.upcalls.port_names import PortName
        from kernel_delay.reporters.upcall_cost import event_line

        for event in events:
            if isinstance(event, PortName):
                continue
            self.events.append(event)
            if self._lines:
                print(event_line(event))
            if len(self.events) == self._most:
                if not self._asked:
                    print_message(
                        f"stopped after {MOST_EVENTS:,} events, the most that are analysed"
                    )
                return False
        if self._lines:
            sys.stdout.flush()
        return True

    def finish(self, missed: "Mapping[str, int]") -> None:
        """Join the events, and report what they cost."""
        from kernel_delay.ovs.upcalls import analyse, join
        from kernel_delay.reporters.upcall_cost import json_of, render

        self.say(f"- Analyzing results ({len(self.events)} events)...\n")
        joined = join(self.events, self._handlers())
        analysis = analyse(joined)
        if self._json is not None:
            for found in joined.sets:
                self._json(json_of(found))
        summary = render(joined, analysis, missed, self._args.histogram_buckets)
        self._print(joined, summary, missed)
        if self._page is not None:
            for found in analysis.sets:
                self._page.contents.add(found)
            # The summary's first table has what was missed.
            self._page.finish(summary, ())

    def _handlers(self) -> list[str] | None:
        """Whose upcalls are meant; names of none are printed, if there are others."""
        if self._args.handler_filter is None:
            return None
        from kernel_delay.ovs.upcalls import RecvUpcall

        names: list[str] = self._args.handler_filter.split(",")
        there = sorted({event.comm for event in self.events if isinstance(event, RecvUpcall)})
        if there and (strange := [repr(name) for name in names if name not in there]):
            print_message(
                f"no upcall was received by {', '.join(strange)}, but by {', '.join(there)}"
            )
        return names

    def _print(self, joined: "Joined", summary: str, missed: "Mapping[str, int]") -> None:
        from kernel_delay.reporters.upcall_cost import set_lines

        if not self._text:
            if lost := sum(missed.values()):
                print_message(f"{lost:,} events were missed: upcalls lack events, or are not there")
            return
        if self._args.sets:
            for found in joined.sets:
                print("\n".join(set_lines(found)))
            print()
        print(summary)
