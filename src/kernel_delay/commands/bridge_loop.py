"""`kernel-delay bridge-loop`: how long each pass of ovs-vswitchd's main loop runs and waits."""

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kernel_delay.errors import InputError
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.model import RecordingHeader
    from kernel_delay.ovs.monitors.loop_events import LoopEvents
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.records import LoopHit, Read
    from kernel_delay.recording.writer import RecordingWriter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: how long, and how much to print."""
    target_options.add_arguments(parser)
    output_options.add_quiet(parser)
    add_report_arguments(parser)
    output_options.add_json(parser, "pass and wait")
    page_options.add_html(parser)
    recording_options.add_arguments(parser)
    arguments.add_time(parser)
    arguments.add_count(parser, "passes")


def add_report_arguments(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """The options that a report from a recording has too; -q and --json are every command's."""
    return [
        parser.add_argument(
            "--log2",
            action="store_true",
            help="print histograms with powers of two instead of linear ones",
        )
    ]


def run(args: argparse.Namespace) -> int:
    """Follow the loop, a line for each of its passes and waits, and then sum up."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.ovs.monitors.loop_events import LoopEvents

    target = target_options.find_to_measure(args)
    with ExitStack() as stack:
        header = partial(recording_options.header_of, "bridge-loop", target)
        report = _LoopReport(args, header, stack)
        recording = recording_options.open_writer(args, header, stack)
        events = stack.enter_context(LoopEvents(target.pid))
        monitoring.keep_rights(args)
        follow = partial(_follow, events, report, recording, target.pid, args)
        ended = monitoring.monitor("main loop", target, events, report, recording, follow)
    return monitoring.print_end(ended, target)


def report_recording(recording: "RecordingReader", args: argparse.Namespace) -> "InputError | None":
    """Print what run() printed when it was recorded; return why it is not all, None if it is."""
    from kernel_delay.recording.records import LoopEvents

    with ExitStack() as stack:
        report = _LoopReport(args, lambda: recording.header, stack)

        def take(record: "Read") -> None:
            if isinstance(record, LoopEvents):
                for hit in record.hits:
                    report.take(hit)

        return monitoring.replay(recording, report, take)


def _follow(
    events: "LoopEvents",
    report: "_LoopReport",
    recording: "RecordingWriter | None",
    pid: int,
    args: argparse.Namespace,
) -> "Ended":
    """Take events until the end; returns what ended it."""
    from kernel_delay.loader.follow import follow

    def take() -> bool:
        hits = list(_hits(events, report, args.count))
        if recording is not None:
            recording.loop_events(hits)
        report.flush()
        return args.count is not None and report.loop.passes >= args.count

    return follow(pid, args.time_ns, take)


def _hits(events: "LoopEvents", report: "_LoopReport", count: int | None) -> "Iterator[LoopHit]":
    """What has come, as it is counted and printed, up to as many passes as were asked for."""
    from kernel_delay.recording.records import LoopHit

    for event, lost_before in events.take():
        hit = LoopHit(event, lost_before)
        report.take(hit)
        yield hit
        if count is not None and report.loop.passes >= count:
            return


class _LoopReport:
    """A line for each pass and wait as it ends, and at the end what they sum up to; or JSON."""

    def __init__(
        self, args: argparse.Namespace, header: "Callable[[], RecordingHeader]", stack: ExitStack
    ) -> None:
        from kernel_delay.ovs.bridge_loop import BridgeLoop

        self.loop = BridgeLoop()
        self._args = args
        self._json = output_options.open_json(args.json_file, stack)
        self._text = output_options.has_text(args.json_file)
        self._page = None
        if args.html is not None:
            from kernel_delay.reporters.page.monitors import LoopPage

            self._page = page_options.EventPage(args.html, "bridge-loop", header(), LoopPage())

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read, that was printed already."""
        if self._page is not None:
            self._page.note(text)

    def take(self, hit: "LoopHit") -> None:
        """Count and print."""
        from kernel_delay.reporters.bridge_loop import interval_line

        if hit.lost_before:
            self.loop.lost()
        interval = self.loop.add(hit.event)
        if interval is None:
            return
        if self._json is not None:
            self._json(interval)
        if self._page is not None:
            self._page.contents.add(interval)
        if self._text and not self._args.quiet:
            print(interval_line(interval))

    def flush(self) -> None:
        """Show what was printed."""
        if self._text:
            sys.stdout.flush()

    def finish(self, missed: "Mapping[str, int]") -> None:
        """Sum up."""
        from kernel_delay.reporters.bridge_loop import render
        from kernel_delay.reporters.missed import missed_lines

        summary = render(self.loop, log2=self._args.log2)
        lines = missed_lines(missed)
        monitoring.sum_up(summary, lines, as_text=self._text)
        if self._page is not None:
            self._page.finish(summary, lines)
