"""`kernel-delay revalidator`: what each round of Open vSwitch's revalidators does and takes."""

import argparse
import os
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kernel_delay.errors import InputError
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.ovs.monitors.revalidator_rounds import RevalidatorRounds
    from kernel_delay.ovs.revalidator import RevalidatorRound
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.writer import RecordingWriter

BARS_FROM = 100
"""Columns that a terminal must have for bars of the rounds' lengths beside the table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: how long, what is counted, and how much to print."""
    target_options.add_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print the summary only")
    add_report_arguments(parser)
    output_options.add_json(parser, "round")
    recording_options.add_arguments(parser)
    parser.add_argument(
        "--no-ukey-count",
        action="store_true",
        help="don't count flows: leave the probes alone that are hit once for each of them",
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
            help="print a round only if it differs from the one before in more than its times",
        )
    ]


def run(args: argparse.Namespace) -> int:
    """Follow the revalidators, a line for each round, and then sum up."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.ovs.monitors.revalidator_rounds import RevalidatorRounds

    target = target_options.find_to_measure(args)
    with ExitStack() as stack:
        report = _Report(args, stack)
        header = partial(recording_options.header_of, "revalidator", target)
        recording = recording_options.open_writer(args, header, stack)
        source = stack.enter_context(
            RevalidatorRounds(target.pid, count_flows=not args.no_ukey_count)
        )
        for note in source.notes:
            recording_options.noting(recording)(note)
        tell(f"tracing the revalidators of {target.comm} ({target.pid}); Ctrl-C ends it")
        ended = _follow(source, report, recording, target.pid, args)
        missed = source.missed()
        recording_options.finish(recording, ended, missed)
        report.finish(missed)
    if ended == "exit":
        tell(f"process {target.pid} exited")
    return os.EX_OK


def report_recording(recording: "RecordingReader", args: argparse.Namespace) -> "InputError | None":
    """Print what run() printed when it was recorded; return why it is not all, None if it is."""
    from kernel_delay.recording.reader import UntilDamage
    from kernel_delay.recording.records import Note, RevalidatorRounds

    reading = UntilDamage(recording)
    with ExitStack() as stack:
        report = _Report(args, stack)
        for record in reading:
            match record:
                case RevalidatorRounds():
                    for found in record.rounds:
                        report.take(found)
                case Note():
                    tell(record.text)
        report.finish(recording.trailer.lost if recording.trailer else {})
    return reading.damage


def _follow(
    source: "RevalidatorRounds",
    report: "_Report",
    recording: "RecordingWriter | None",
    pid: int,
    args: argparse.Namespace,
) -> "Ended":
    """Take rounds until the end; returns what ended it."""
    from kernel_delay.loader.follow import rounds
    from kernel_delay.loader.waiting import watch

    with watch(pid) as waiter:
        for ended in rounds(waiter, args.time_ns):
            found = list(_found(source, report, args.count))
            if recording is not None:
                recording.revalidator_rounds(found)
            report.flush()
            enough = args.count is not None and report.rounds >= args.count
            if enough or ended is not None:
                return ended or "time"
    raise AssertionError("rounds() ends with what ended it")


def _found(
    source: "RevalidatorRounds", report: "_Report", count: int | None
) -> "Iterator[RevalidatorRound]":
    """What has ended, as it is reported, up to as many rounds as were asked for."""
    for found in source.take():
        report.take(found)
        yield found
        if count is not None and report.rounds >= count:
            return


def _has_room_for_bars() -> bool:
    from kernel_delay.reporters.terminal import has_room_for_bars

    return sys.stdout is not None and has_room_for_bars(sys.stdout, BARS_FROM)


class _Report:
    """A line for each round as it ends, and at the end what they come to; or JSON."""

    def __init__(self, args: argparse.Namespace, stack: ExitStack) -> None:
        from kernel_delay.ovs.revalidator import Revalidation

        self._revalidation = Revalidation()
        self._json = output_options.open_json(args.json_file, stack)
        self._text = args.json_file != output_options.STDOUT
        self._lines = self._text and not args.quiet
        self._only_changes = args.compress_output
        self._bars = self._lines and _has_room_for_bars()
        self._begun = False

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
        if not self._lines:
            return
        from kernel_delay.reporters import revalidator as lines

        if not self._begun:
            self._begun = True
            print(lines.HEADER)
        if before is None or before.tid != found.tid:
            print(lines.datapath_line(rounds, found))
        remarks = lines.remark_lines(found, since)
        if self._only_changes and not remarks and before is not None and found.like(before):
            return
        bars = f" {lines.sparkline(rounds.recent)}" if self._bars else ""
        print(lines.round_line(rounds, found) + bars)
        for remark in remarks:
            print(remark)

    def flush(self) -> None:
        """Show what was printed."""
        if self._text:
            sys.stdout.flush()

    def finish(self, missed: "Mapping[str, int]") -> None:
        """Sum up."""
        from kernel_delay.reporters.revalidator import missed_lines, render

        if not self._text:
            return
        print("\n" + render(self._revalidation) if self._begun else render(self._revalidation))
        for line in missed_lines(missed):
            print(line)
