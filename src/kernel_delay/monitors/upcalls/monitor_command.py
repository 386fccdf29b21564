"""The options of `kernel-delay upcall-monitor`, and what they have connected."""

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.monitors.monitor import Monitor, OpenOutputs, batches
from kernel_delay.monitors.options import add_packets

if TYPE_CHECKING:
    from kernel_delay.monitors.upcalls import monitor_report
    from kernel_delay.monitors.upcalls.events import UpcallEvents
    from kernel_delay.monitors.upcalls.probe import UpcallProbes


def add_report_arguments(parser: argparse._ActionsContainer) -> Sequence[argparse.Action]:
    """Add the options that a report from a recording has too."""
    return [
        parser.add_argument(
            "-k",
            "--flow-key-decode",
            choices=("none", "hex", "nlraw", "decode"),
            default="none",
            help="show flow keys: as bytes (hex), as netlink attributes (nlraw), or as"
            " ovs-dpctl does (decode) (default: %(default)s)",
        ),
        parser.add_argument(
            "-r",
            "--result",
            choices=("ok", "error", "any"),
            default="any",
            help="show upcalls that were received (ok), that the kernel dropped (error), or any"
            " (default: %(default)s)",
        ),
    ]


class MonitorOptions(NamedTuple):
    """What is asked for; the last three say what is captured."""

    result: str
    packet_decode: str
    flow_key_decode: "monitor_report.KeyDecode"
    packet_size: int = 0
    flow_key_size: int = 0
    buffer_page_count: int = 0


class UpcallMonitor(Monitor["UpcallEvents", "UpcallProbes", MonitorOptions]):
    """Shows each upcall that is received or dropped."""

    command = "upcall-monitor"
    options = MonitorOptions
    activity = None
    report_arguments = (add_packets, add_report_arguments)
    report_options = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options: which upcalls, how much of each, and how to show it."""
        target_options.add_arguments(parser)
        add_packets(parser)
        add_report_arguments(parser)
        output_options.add_json(parser, "upcall")
        arguments.add_capture_sizes(parser, "-s")
        arguments.add_buffer_pages(parser)
        arguments.add_time(parser)
        recording_options.add_arguments(parser)

    def open_report(
        self, options: MonitorOptions, open_outputs: OpenOutputs
    ) -> "monitor_report.MonitorReport":
        """Lines for each upcall."""
        from kernel_delay.monitors.upcalls.monitor_report import MonitorReport

        return MonitorReport(
            open_outputs(),
            result=options.result,
            packet=options.packet_decode,
            key=options.flow_key_decode,
        )

    def open_source(self, options: MonitorOptions, pid: int) -> "UpcallProbes":
        """The probes of what is received, and of what is dropped."""
        from kernel_delay.monitors.upcalls.probe import UpcallPlan, UpcallProbes

        plan = UpcallPlan(
            options.packet_size,
            options.flow_key_size,
            whole_trip=False,
            ring_bytes=arguments.buffer_bytes(options.buffer_page_count),
        )
        return UpcallProbes(pid, plan)

    def take(self, source: "UpcallProbes") -> "Iterator[UpcallEvents]":
        """What has come, with how its clock stands to that of the day."""
        from kernel_delay.monitors.upcalls.events import UpcallEvents
        from kernel_delay.recording.records import EVENTS_AT_ONCE

        since_epoch_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for events in batches(iter(source.take()), EVENTS_AT_ONCE):
            yield UpcallEvents(events, since_epoch_ns)


MONITOR = UpcallMonitor()
