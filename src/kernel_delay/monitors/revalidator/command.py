"""The options of `kernel-delay revalidator`, and what they have connected."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.monitors.monitor import Monitor, OpenOutputs, batches
from kernel_delay.monitors.options import PAHOLE, add_needless, add_other

if TYPE_CHECKING:
    from kernel_delay.monitors.revalidator import report
    from kernel_delay.monitors.revalidator.events import RevalidatorRounds
    from kernel_delay.monitors.revalidator.page import RoundsPage
    from kernel_delay.monitors.revalidator.probe import RevalidatorProbes


SLOWEST_CHECKS = 8
"""As in openvswitch/ovs_records.h, which need not be compiled to print the help."""


def add_report_arguments(parser: argparse._ActionsContainer) -> Sequence[argparse.Action]:
    """Add the options that a report from a recording has too."""
    return [
        parser.add_argument(
            "-c",
            "--compress-output",
            action="store_true",
            help="print a round (one check of all flows) only if more than its times differs from"
            " the previous round",
        )
    ]


def _add_upstream(parser: argparse.ArgumentParser) -> None:
    """Add the options of reval_monitor.py."""
    add_needless(parser, "there are no windows", "-g", "--no-gui")
    add_needless(parser, "plots are drawn on a terminal alone", "-R", "--no-realtime-plots")
    add_needless(
        parser, "each round is shown as it ends", "-u", "--update-interval", metavar="SECONDS"
    )
    add_needless(parser, "flows are counted in the kernel", "--buffer-page-count", metavar="NUMBER")
    add_needless(parser, PAHOLE, "-P", "--pahole", metavar="PAHOLE")
    add_other(parser, "charts are a page for a browser: --html {stem}.html", "-W", "--write-charts")
    add_other(parser, "`kernel-delay report {file}` reads what -w wrote", "-r", "--read-events")


class RevalidatorOptions(NamedTuple):
    """What is asked for; a recording was counted before."""

    compress_output: bool
    no_ukey_count: bool = False
    slowest: int = 0


class RevalidatorMonitor(Monitor["RevalidatorRounds", "RevalidatorProbes", RevalidatorOptions]):
    """Follows the revalidators."""

    command = "revalidator"
    options = RevalidatorOptions
    activity = "tracing the revalidators"
    report_arguments = (add_report_arguments,)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options: how long, what is counted, and how much to print."""
        target_options.add_arguments(parser)
        output_options.add_quiet(parser)
        add_report_arguments(parser)
        output_options.add_json(parser, "round")
        page_options.add_html(parser)
        recording_options.add_arguments(parser, "-w", "--write-events")
        _add_upstream(parser)
        parser.add_argument(
            "--no-ukey-count",
            action="store_true",
            help="do not count flows: attach no probe that is hit once for each flow",
        )
        parser.add_argument(
            "--slowest",
            nargs="?",
            type=int,
            choices=range(SLOWEST_CHECKS + 1),
            const=SLOWEST_CHECKS,
            default=0,
            metavar="N",
            help="show of each round the N flows whose check against the OpenFlow tables took"
            f" longest, at most {SLOWEST_CHECKS} (default without N: {SLOWEST_CHECKS}). Waits for"
            " a CPU do not count. It attaches two more probes, which are hit once for each check",
        )
        arguments.add_time(parser)
        arguments.add_count(parser, "rounds")

    def open_report(
        self, options: RevalidatorOptions, open_outputs: OpenOutputs
    ) -> "report.RevalidatorReport":
        """A line for each round."""
        from kernel_delay.monitors.revalidator.report import RevalidatorReport

        return RevalidatorReport(open_outputs(), only_changes=options.compress_output)

    def page(self) -> "RoundsPage":
        """The empty contents of a page."""
        from kernel_delay.monitors.revalidator.page import RoundsPage

        return RoundsPage()

    def open_source(self, options: RevalidatorOptions, pid: int) -> "RevalidatorProbes":
        """The probes of the rounds, and those that are hit once a flow if it counts these."""
        from kernel_delay.monitors.revalidator.probe import RevalidatorProbes

        count_flows = not options.no_ukey_count
        return RevalidatorProbes(pid, count_flows=count_flows, slowest=options.slowest)

    def take(self, source: "RevalidatorProbes") -> "Iterator[RevalidatorRounds]":
        """The rounds that have ended."""
        from kernel_delay.monitors.revalidator.events import RevalidatorRounds
        from kernel_delay.recording.records import EVENTS_AT_ONCE

        for rounds in batches(iter(source.take()), EVENTS_AT_ONCE):
            yield RevalidatorRounds(rounds)


MONITOR = RevalidatorMonitor()
