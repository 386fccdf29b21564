"""The options of `kernel-delay flows`, and what they have connected."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.monitors.monitor import Monitor, OpenOutputs, batches
from kernel_delay.monitors.options import PAHOLE, add_filter, add_needless

if TYPE_CHECKING:
    from kernel_delay.monitors.flows import report
    from kernel_delay.monitors.flows.events import FlowEvents
    from kernel_delay.monitors.flows.page import FlowsPage
    from kernel_delay.monitors.flows.probe import FlowProbes

BUFFER_PAGES = 4096
"""16 MiB, where a page is of 4 KiB: 20,000 flows that are made or deleted at once."""


def add_report_arguments(
    parser: argparse._ActionsContainer, *short_names: str
) -> Sequence[argparse.Action]:
    """Add the options that a report from a recording has too.

    `short_names` is what the first has beside its own, which is another's in `report`.
    """
    return [
        parser.add_argument(
            *short_names, "--flow-keys", action="store_true", help="show what each flow matches"
        ),
        parser.add_argument(
            "--reason",
            metavar="NAME[,NAME...]",
            help="only show deletions for these reasons, by name or by number",
        ),
    ]


class FlowOptions(NamedTuple):
    """What is asked for; the last four say what is captured."""

    filter_flows: str | None
    ufid: str | None
    reason: str | None
    flow_keys: bool
    flow_key_size: int = 0
    buffer_page_count: int = 0
    all_results: bool = False
    rules: bool = False


class FlowMonitor(Monitor["FlowEvents", "FlowProbes", FlowOptions]):
    """Follows what happens to flows."""

    command = "flows"
    options = FlowOptions
    activity = "tracing the flows"
    report_arguments = (add_filter, add_report_arguments)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options: which flows, how much of each, and how much to print."""
        target_options.add_arguments(parser)
        output_options.add_quiet(parser)
        add_filter(parser)
        add_report_arguments(parser, "-k")
        output_options.add_json(parser, "event")
        page_options.add_html(parser)
        recording_options.add_arguments(parser)
        parser.add_argument(
            "-a",
            "--all-results",
            action="store_true",
            help="also show each check after which a flow is kept: two each time that the"
            " revalidators check all flows",
        )
        parser.add_argument(
            "--rules",
            action="store_true",
            help="show the OpenFlow rules of each flow that is made or modified (ofproto/detrace,"
            " Open vSwitch 3.4)",
        )
        parser.add_argument(
            "-f",
            "--flow-key-size",
            type=arguments.captured_bytes,
            default=256,
            metavar="BYTES",
            help="number of bytes to capture of each flow's key and mask,"
            f" {arguments.CAPTURED_MIN} to {arguments.CAPTURED_MAX}; {arguments.WHOLE_KEY}"
            " suffice for any key (default: %(default)s)",
        )
        # Of flow_reval_monitor.py.
        add_needless(parser, PAHOLE, "-P", "--pahole", metavar="PAHOLE")
        arguments.add_buffer_pages(parser, BUFFER_PAGES)
        arguments.add_time(parser)

    def open_report(self, options: FlowOptions, open_outputs: OpenOutputs) -> "report.FlowReport":
        """Lines for each event."""
        from kernel_delay.monitors.flows.report import FlowReport, Wanted

        wanted = Wanted.of(options.filter_flows, options.reason, options.ufid)
        return FlowReport(open_outputs(), wanted, keys=options.flow_keys)

    def page(self) -> "FlowsPage":
        """The empty contents of a page."""
        from kernel_delay.monitors.flows.page import FlowsPage

        return FlowsPage()

    def open_source(self, options: FlowOptions, pid: int) -> "FlowProbes":
        """The probes of the revalidators' results."""
        from kernel_delay.monitors.flows.probe import FlowPlan, FlowProbes

        ring_bytes = arguments.buffer_bytes(options.buffer_page_count)
        return FlowProbes(
            pid,
            FlowPlan(options.flow_key_size, ring_bytes, options.all_results, options.rules),
        )

    def take(self, source: "FlowProbes") -> "Iterator[FlowEvents]":
        """What has happened."""
        from kernel_delay.monitors.flows.events import FlowEvents
        from kernel_delay.recording.records import EVENTS_AT_ONCE

        for events in batches(iter(source.take()), EVENTS_AT_ONCE):
            yield FlowEvents(events, source.flows_before())

    def rest(self, source: "FlowProbes") -> "Iterator[FlowEvents]":
        """The last events, and how many flows there were before, of those that were seen."""
        from kernel_delay.monitors.flows.events import FlowEvents
        from kernel_delay.recording.records import EVENTS_AT_ONCE

        for events in batches(source.rest(), EVENTS_AT_ONCE):
            yield FlowEvents(events, source.flows_before())
        yield FlowEvents((), source.flows_before())


MONITOR = FlowMonitor()
