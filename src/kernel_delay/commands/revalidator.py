"""`kernel-delay revalidator`: what each round of Open vSwitch's revalidators does and takes."""

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from kernel_delay.commands import monitoring
from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.commands.options import upstream as upstream_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kernel_delay.errors import InputError
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.model import RecordingHeader
    from kernel_delay.ovs.monitors.revalidator_rounds import RevalidatorRounds
    from kernel_delay.ovs.revalidator import DatapathRounds, RevalidatorRound
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.records import Read
    from kernel_delay.recording.writer import RecordingWriter

BARS_FROM = 105
"""Columns that a terminal must have for bars of the rounds' lengths beside the table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: how long, what is counted, and how much to print."""
    target_options.add_arguments(parser)
    output_options.add_quiet(parser)
    add_report_arguments(parser)
    output_options.add_json(parser, "round")
    page_options.add_html(parser)
    recording_options.add_arguments(parser, "-w", "--write-events")
    upstream_options.add_to_revalidator(parser)
    parser.add_argument(
        "--no-ukey-count",
        action="store_true",
        help="do not count flows: attach no probe that is hit once for each flow",
    )
    arguments.add_time(parser)
    arguments.add_count(parser, "rounds")


def add_report_arguments(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """The options that a report from a recording has too; -q and --json are every command's."""
    return [
        parser.add_argument(
            "-c",
            "--compress-output",
            action="store_true",
            help="print a round (one check of all flows) only if more than its times differs from"
            " the previous round",
        )
    ]


def run(args: argparse.Namespace) -> int:
    """Follow the revalidators, a line for each round, and then sum up."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.ovs.monitors.revalidator_rounds import RevalidatorRounds

    target = target_options.find_to_measure(args)
    with ExitStack() as stack:
        header = partial(recording_options.header_of, "revalidator", target)
        report = _RevalidatorReport(args, header, stack)
        recording = recording_options.open_writer(args, header, stack)
        source = stack.enter_context(
            RevalidatorRounds(target.pid, count_flows=not args.no_ukey_count)
        )
        monitoring.keep_rights(args)
        follow = partial(_follow, source, report, recording, target.pid, args)
        ended = monitoring.monitor("revalidators", target, source, report, recording, follow)
    return monitoring.print_end(ended, target)


def report_recording(recording: "RecordingReader", args: argparse.Namespace) -> "InputError | None":
    """Print what run() printed when it was recorded; return why it is not all, None if it is."""
    from kernel_delay.recording.records import RevalidatorRounds

    with ExitStack() as stack:
        report = _RevalidatorReport(args, lambda: recording.header, stack)

        def take(record: "Read") -> None:
            if isinstance(record, RevalidatorRounds):
                for found in record.rounds:
                    report.take(found)

        return monitoring.replay(recording, report, take)


def _follow(
    source: "RevalidatorRounds",
    report: "_RevalidatorReport",
    recording: "RecordingWriter | None",
    pid: int,
    args: argparse.Namespace,
) -> "Ended":
    """Take rounds until the end; returns what ended it."""
    from kernel_delay.loader.follow import follow

    def take() -> bool:
        found = list(_found(source, report, args.count))
        if recording is not None:
            recording.revalidator_rounds(found)
        report.flush()
        return args.count is not None and report.rounds >= args.count

    return follow(pid, args.time_ns, take)


def _found(
    source: "RevalidatorRounds", report: "_RevalidatorReport", count: int | None
) -> "Iterator[RevalidatorRound]":
    """What has ended, as it is reported, up to as many rounds as were asked for."""
    for found in source.take():
        report.take(found)
        yield found
        if count is not None and report.rounds >= count:
            return


class _Table:
    """The rounds' lines, with what stdout has columns for beside the first 80."""

    def __init__(self) -> None:
        from kernel_delay.reporters import revalidator as lines
        from kernel_delay.reporters.terminal import has_columns, has_room_for_bars

        file = output_options.stdout()
        polled = has_columns(file, len(lines.POLL_HEADER))
        self.header = lines.POLL_HEADER if polled else lines.HEADER
        self._line = lines.polled_round_line if polled else lines.round_line
        self._sparkline = lines.sparkline
        self._bars = has_room_for_bars(file, BARS_FROM)

    def line(self, rounds: "DatapathRounds", found: "RevalidatorRound") -> str:
        """A round that was taken."""
        bars = f" {self._sparkline(rounds.recent)}" if self._bars else ""
        return self._line(rounds, found) + bars


class _RevalidatorReport:
    """A line for each round as it ends, and at the end what they come to; or JSON."""

    def __init__(
        self, args: argparse.Namespace, header: "Callable[[], RecordingHeader]", stack: ExitStack
    ) -> None:
        from kernel_delay.ovs.revalidator import Revalidation

        self._revalidation = Revalidation()
        self._json = output_options.open_json(args.json_file, stack)
        self._text = output_options.has_text(args.json_file)
        self._lines = self._text and not args.quiet
        self._only_changes = args.compress_output
        self._table = _Table() if self._lines else None
        self._begun = False
        self._page = None
        if args.html is not None:
            from kernel_delay.reporters.page.monitors import RoundsPage

            self._page = page_options.EventPage(args.html, "revalidator", header(), RoundsPage())

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read, that was printed already."""
        if self._page is not None:
            self._page.note(text)

    @property
    def rounds(self) -> int:
        """How many were taken."""
        return self._revalidation.rounds

    def take(self, found: "RevalidatorRound") -> None:
        """Count and print."""
        rounds = self._revalidation.of(found)
        before = rounds.last
        since = rounds.take(found)
        if self._json is not None:
            self._json(found)
        if not self._lines and self._page is None:
            return
        from kernel_delay.reporters import revalidator as lines

        remarks = lines.remark_lines(found, since)
        if self._page is not None:
            self._page.contents.add(rounds.datapath, found, remarks)
        if self._table is None:
            return
        if not self._begun:
            self._begun = True
            print(self._table.header)
        if before is None or before.tid != found.tid:
            print(lines.datapath_line(rounds, found))
        if self._only_changes and not remarks and before is not None and found.like(before):
            return
        print(self._table.line(rounds, found))
        for remark in remarks:
            print(remark)

    def flush(self) -> None:
        """Show what was printed."""
        if self._text:
            sys.stdout.flush()

    def finish(self, missed: "Mapping[str, int]") -> None:
        """Sum up."""
        from kernel_delay.reporters.missed import missed_lines
        from kernel_delay.reporters.revalidator import render

        summary, lines = render(self._revalidation), missed_lines(missed)
        apart = f"\n{summary}" if self._begun else summary
        monitoring.sum_up(apart, lines, as_text=self._text)
        if self._page is not None:
            self._page.finish(summary, lines)
