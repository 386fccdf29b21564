"""The options of `kernel-delay upcall-cost`, and what they have connected."""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.errors import InputError
from kernel_delay.formatting import printable
from kernel_delay.monitors.monitor import Monitor, Opener, OpenOutputs, batches, replay
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from kernel_delay.monitors.upcalls import cost_report
    from kernel_delay.monitors.upcalls.cost_page import CostsPage
    from kernel_delay.monitors.upcalls.events import Event, PortName, UpcallEvents
    from kernel_delay.monitors.upcalls.probe import UpcallProbes

# The analysis needs all of them at once, in about a kilobyte each.
MOST_EVENTS = 1_000_000


def add_report_arguments(parser: argparse._ActionsContainer) -> Sequence[argparse.Action]:
    """Add the options that a report from a recording has too."""
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


class CostOptions(NamedTuple):
    """What is asked for; the last four say what is captured."""

    histogram_buckets: int
    handler_filter: str | None
    sets: bool
    packet_size: int = 0
    flow_key_size: int = 0
    buffer_page_count: int = 0
    rules: bool = False


class UpcallCost(Monitor["UpcallEvents", "UpcallProbes", CostOptions]):
    """Collects events, joins them into sets, and reports their costs."""

    command = "upcall-cost"
    options = CostOptions
    activity = "collecting events"
    report_arguments = (add_report_arguments,)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options: from where events come, which of them, and what is printed of them."""
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
            "--rules",
            action="store_true",
            help="show with --sets and in JSON the OpenFlow rules of each flow that is put"
            " (ofproto/detrace, Open vSwitch 3.4)",
        )
        parser.add_argument(
            "-s",
            "--stop",
            dest="count",
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

    def open_report(
        self, options: CostOptions, open_outputs: OpenOutputs
    ) -> "cost_report.CostReport":
        """The events, and at the end what they cost."""
        from kernel_delay.monitors.upcalls.cost_report import CostReport

        return CostReport(
            open_outputs(),
            MOST_EVENTS,
            buckets=options.histogram_buckets,
            handlers=options.handler_filter,
            sets=options.sets,
        )

    def page(self) -> "CostsPage":
        """The empty contents of a page."""
        from kernel_delay.monitors.upcalls.cost_page import CostsPage

        return CostsPage()

    def open_source(self, options: CostOptions, pid: int) -> "UpcallProbes":
        """The probes of the whole trip."""
        from kernel_delay.monitors.upcalls.probe import UpcallPlan, UpcallProbes

        # Of keys that are cut it is not known which packet's the flow is.
        shows_flows = options.sets or options.rules
        plan = UpcallPlan(
            options.packet_size,
            max(options.flow_key_size, arguments.WHOLE_KEY * shows_flows),
            whole_trip=True,
            ring_bytes=arguments.buffer_bytes(options.buffer_page_count),
            rules=options.rules,
        )
        return UpcallProbes(pid, plan)

    def take(self, source: "UpcallProbes") -> "Iterator[UpcallEvents]":
        """What has come."""
        return _records(source.take())

    def rest(self, source: "UpcallProbes") -> "Iterator[UpcallEvents]":
        """What waited for the rules of flows."""
        return _records(source.rest())

    def report_file(self, file: Path, options: CostOptions, opener: Opener) -> InputError | None:
        """Report from a recording, or from what Open vSwitch's own script wrote."""
        from kernel_delay.monitors.upcalls.script_events import is_of_script

        report = self._report_script if is_of_script(file) else self._report_recorded
        return report(file, options, opener)

    def _report_script(self, file: Path, options: CostOptions, opener: Opener) -> InputError | None:
        """Report what Open vSwitch's own script wrote; return why that is not all, or None."""
        from kernel_delay.monitors.upcalls.script_events import ScriptEvents

        with ExitStack() as stack:
            report = self.open_report(options, opener(lambda: None, stack))
            report.say(f"- Reading events of upcall_cost.py from {str(file)!r}...")
            report.begin()
            damage = None
            with ScriptEvents(file) as events:
                try:
                    report.take_all(events)
                except InputError as error:
                    damage = error
            if damage is not None:
                report.note(str(damage))
            report.finish(events.missed)
            if events.unknown_ports:
                print_message(
                    f"of {events.unknown_ports} upcalls of the kernel the script did not know"
                    " the port"
                )
        return damage

    def _report_recorded(
        self, file: Path, options: CostOptions, opener: Opener
    ) -> InputError | None:
        """Report from a recording of this command; return why it is not all, None if it is."""
        from kernel_delay.recording.reader import open_recording

        with open_recording(file) as recording, ExitStack() as stack:
            header = recording.header
            if header.command != self.command:
                raise InputError(
                    f"{recording.name!r} is a recording of {header.command}, not of upcall-cost:"
                    " read it with kernel-delay report"
                )
            report = self.open_report(options, opener(lambda: header, stack))
            where = f"{printable(header.host)}, Linux {printable(header.kernel)}"
            report.say(f"- Reading events from {str(file)!r} ({where})...")
            return replay(recording, report)


def _records(events: "Iterator[Event | PortName]") -> "Iterator[UpcallEvents]":
    """Yield records of events; no cost needs the names of ports."""
    from kernel_delay.monitors.upcalls.events import PortName, UpcallEvents
    from kernel_delay.recording.records import EVENTS_AT_ONCE

    since_epoch_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    found = (event for event in events if not isinstance(event, PortName))
    for some in batches(found, EVENTS_AT_ONCE):
        yield UpcallEvents(some, since_epoch_ns)


MONITOR = UpcallCost()
