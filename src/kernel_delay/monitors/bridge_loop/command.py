"""The options of `kernel-delay bridge-loop`, and what they have connected."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.monitors.monitor import Monitor, OpenOutputs, batches

if TYPE_CHECKING:
    from kernel_delay.monitors.bridge_loop import report
    from kernel_delay.monitors.bridge_loop.events import LoopEvents
    from kernel_delay.monitors.bridge_loop.page import LoopPage
    from kernel_delay.monitors.bridge_loop.probe import LoopProbes


def add_report_arguments(parser: argparse._ActionsContainer) -> Sequence[argparse.Action]:
    """Add the options that a report from a recording has too."""
    return [
        parser.add_argument(
            "--log2",
            action="store_true",
            help="print histograms with powers of two instead of linear ones",
        )
    ]


class LoopOptions(NamedTuple):
    """What is asked for of the report."""

    log2: bool


class LoopMonitor(Monitor["LoopEvents", "LoopProbes", LoopOptions]):
    """Follows the main loop."""

    command = "bridge-loop"
    options = LoopOptions
    activity = "tracing the main loop"
    report_arguments = (add_report_arguments,)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options: how long, and how much to print."""
        target_options.add_arguments(parser)
        output_options.add_quiet(parser)
        add_report_arguments(parser)
        output_options.add_json(parser, "pass and wait")
        page_options.add_html(parser)
        recording_options.add_arguments(parser)
        arguments.add_time(parser)
        arguments.add_count(parser, "passes")

    def open_report(self, options: LoopOptions, open_outputs: OpenOutputs) -> "report.LoopReport":
        """A line for each pass and wait."""
        from kernel_delay.monitors.bridge_loop.report import LoopReport

        return LoopReport(open_outputs(), log2=options.log2)

    def page(self) -> "LoopPage":
        """The empty contents of a page."""
        from kernel_delay.monitors.bridge_loop.page import LoopPage

        return LoopPage()

    def open_source(self, options: LoopOptions, pid: int) -> "LoopProbes":
        """The probes of the loop."""
        from kernel_delay.monitors.bridge_loop.probe import LoopProbes

        return LoopProbes(pid)

    def take(self, source: "LoopProbes") -> "Iterator[LoopEvents]":
        """What has come of the loop."""
        from kernel_delay.monitors.bridge_loop.events import LoopEvents, LoopHit
        from kernel_delay.recording.records import EVENTS_AT_ONCE

        for hits in batches((LoopHit(*each) for each in source.take()), EVENTS_AT_ONCE):
            yield LoopEvents(hits)


MONITOR = LoopMonitor()
