"""The options of `kernel-delay datapath-ops`, and what they have connected."""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.monitors.monitor import Monitor, OpenOutputs, batches
from kernel_delay.monitors.options import add_filter, add_needless, add_packets

if TYPE_CHECKING:
    from kernel_delay.monitors.datapath_ops import report
    from kernel_delay.monitors.datapath_ops.events import Operation, OperationEvents
    from kernel_delay.monitors.datapath_ops.page import OperationsPage
    from kernel_delay.monitors.datapath_ops.probe import OperationProbes

# Of 64 KiB at most each, so that a record of a recording stays small.
EVENTS_AT_ONCE = 100

TRACED: "Mapping[str, tuple[Operation, ...]]" = MappingProxyType(
    {
        "put": ("flow_new", "flow_set"),
        "del": ("flow_del",),
        "get": ("flow_get",),
        "exec": ("packet_execute",),
    }
)
"""What dpif_op_nl_monitor.py's options trace: DPIF_OP_FLOW_PUT and the like of lib/dpif.h."""


def add_report_arguments(parser: argparse._ActionsContainer) -> Sequence[argparse.Action]:
    """Add the options that a report from a recording has too, beside those of other monitors."""
    return [
        parser.add_argument(
            "--operation",
            metavar="NAME[,NAME...]",
            help="only show these operations: flow_new, flow_set, flow_del, flow_get,"
            " packet_execute",
        ),
        *(
            parser.add_argument(
                f"--trace-{name}-op",
                dest="traced",
                action="append_const",
                const=operations,
                help=f"only show {' and '.join(operations)}; such options add up",
            )
            for name, operations in TRACED.items()
        ),
        parser.add_argument(
            "-n",
            "--nlmsg-decode",
            choices=("none", "hex", "nlraw"),
            default="nlraw",
            help="show the request: not at all, as bytes (hex), or decoded (nlraw) (default:"
            " %(default)s)",
        ),
        parser.add_argument(
            "--answer",
            choices=("ok", "error", "any"),
            default="any",
            help="only show operations that succeeded (ok) or failed (error) (default:"
            " %(default)s)",
        ),
    ]


class OperationOptions(NamedTuple):
    """What is asked for; the last one says what is captured."""

    filter_flows: str | None
    ufid: str | None
    operation: str | None
    traced: "Sequence[tuple[Operation, ...]] | None"
    answer: str
    nlmsg_decode: str
    packet_decode: str
    buffer_page_count: int = 0


class OperationMonitor(Monitor["OperationEvents", "OperationProbes", OperationOptions]):
    """Follows the operations."""

    command = "datapath-ops"
    options = OperationOptions
    activity = "tracing the datapath operations"
    report_arguments = (add_packets, add_filter, add_report_arguments)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options: which operations, how much to print, and how long."""
        target_options.add_arguments(parser)
        output_options.add_quiet(parser)
        add_filter(parser)
        add_report_arguments(parser)
        output_options.add_json(parser, "operation")
        page_options.add_html(parser)
        recording_options.add_arguments(parser)
        add_packets(parser, "packets of executions")
        # Of dpif_op_nl_monitor.py; its options that say which operations are our own.
        add_needless(
            parser, "messages are captured whole", "-s", "--nlmsg-size", metavar="[64-2048]"
        )
        arguments.add_buffer_pages(parser)
        arguments.add_time(parser)

    def open_report(
        self, options: OperationOptions, open_outputs: OpenOutputs
    ) -> "report.OperationReport":
        """Lines for each operation."""
        from kernel_delay.monitors.datapath_ops.report import (
            OperationReport,
            Wanted,
            wanted_operations,
        )

        operations = wanted_operations(options.operation, options.traced)
        wanted = Wanted.of(options.filter_flows, options.ufid, operations, options.answer)
        return OperationReport(
            open_outputs(), wanted, message=options.nlmsg_decode, packet=options.packet_decode
        )

    def page(self) -> "OperationsPage":
        """The empty contents of a page."""
        from kernel_delay.monitors.datapath_ops.page import OperationsPage

        return OperationsPage()

    def open_source(self, options: OperationOptions, pid: int) -> "OperationProbes":
        """What sees the messages; UnavailableError where there is no datapath to look into."""
        from kernel_delay.monitors.datapath_ops.probe import OperationProbes

        return OperationProbes(pid, arguments.buffer_bytes(options.buffer_page_count))

    def take(self, source: "OperationProbes") -> "Iterator[OperationEvents]":
        """The operations that have ended."""
        from kernel_delay.monitors.datapath_ops.events import OperationEvents

        since_epoch_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for events in batches(iter(source.take()), EVENTS_AT_ONCE):
            yield OperationEvents(events, since_epoch_ns)


MONITOR = OperationMonitor()
