"""`kernel-delay flows`: which flows ovs-vswitchd makes, modifies and deletes, and why."""

import argparse
import string
import sys
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from kernel_delay.commands import monitoring
from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.commands.options import upstream as upstream_options
from kernel_delay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kernel_delay.errors import InputError
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.model import RecordingHeader
    from kernel_delay.ovs.flows import FlowEvent
    from kernel_delay.ovs.monitors.flow_results import FlowResults
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.records import Read
    from kernel_delay.recording.writer import RecordingWriter

BUFFER_PAGES = 4096
"""16 MiB, where a page is of 4 KiB: 20,000 flows that are made or deleted at once."""


UFID_ZERO = "00000000-0000-0000-0000-000000000000"

LONGEST_REASON_NUMBER = 10
"""It has 32 bits."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: which flows, how much of each, and how much to print."""
    target_options.add_arguments(parser)
    output_options.add_quiet(parser)
    add_filter_arguments(parser)
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
        "-f",
        "--flow-key-size",
        type=arguments.captured_bytes,
        default=256,
        metavar="BYTES",
        help="number of bytes to capture of each flow's key and mask,"
        f" {arguments.CAPTURED_MIN} to {arguments.CAPTURED_MAX}; {arguments.WHOLE_KEY}"
        " suffice for any key (default: %(default)s)",
    )
    upstream_options.add_to_flows(parser)
    arguments.add_buffer_pages(parser, BUFFER_PAGES)
    arguments.add_time(parser)


def add_report_arguments(
    parser: argparse._ActionsContainer, *short_names: str
) -> list[argparse.Action]:
    """The options that a report from a recording has too; -q and --json are every command's.

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


def add_filter_arguments(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """The options that say which flows, which datapath-ops has too."""
    return [
        parser.add_argument(
            "-l",
            "--filter-flows",
            metavar="FLOW",
            help="only show flows that such packets can hit, written as in ovs-dpctl, with"
            " masks: 'in_port(2),ipv4(src=10.0.0.0/8)'",
        ),
        parser.add_argument(
            "--ufid",
            type=_ufid,
            metavar="UFID",
            help="only show flows whose UFID begins with this",
        ),
    ]


def ufid_of(args: argparse.Namespace) -> str:
    """How the UFIDs begin that are asked for; empty for all."""
    return args.ufid or ""


def run(args: argparse.Namespace) -> int:
    """Follow the flows, a line for each event, and then sum up."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.ovs.monitors.flow_results import FlowPlan, FlowResults

    target = target_options.find_to_measure(args)
    ring_bytes = arguments.buffer_bytes(args.buffer_page_count)
    plan = FlowPlan(args.flow_key_size, ring_bytes, args.all_results)
    with ExitStack() as stack:
        header = partial(recording_options.header_of, "flows", target)
        report = _FlowReport(args, header, stack)
        recording = recording_options.open_writer(args, header, stack)
        source = stack.enter_context(FlowResults(target.pid, plan))
        monitoring.keep_rights(args)
        follow = partial(_follow, source, report, recording, target.pid, args.time_ns)
        ended = monitoring.monitor("flows", target, source, report, recording, follow)
    return monitoring.print_end(ended, target)


def report_recording(recording: "RecordingReader", args: argparse.Namespace) -> "InputError | None":
    """Print what run() printed when it was recorded; return why it is not all, None if it is."""
    from kernel_delay.recording.records import FlowEvents

    with ExitStack() as stack:
        report = _FlowReport(args, lambda: recording.header, stack)

        def take(record: "Read") -> None:
            if isinstance(record, FlowEvents):
                report.take(record.events, record.flows_before)

        return monitoring.replay(recording, report, take)


def _follow(
    source: "FlowResults",
    report: "_FlowReport",
    recording: "RecordingWriter | None",
    pid: int,
    time_ns: int | None,
) -> "Ended":
    """Take events until the end; returns what ended it."""
    from kernel_delay.loader.follow import follow
    from kernel_delay.recording.records import EVENTS_AT_ONCE

    def take() -> bool:
        remaining = iter(source.take())
        while batch := tuple(islice(remaining, EVENTS_AT_ONCE)):
            _take(batch, source.flows_before(), report, recording)
        return False

    ended = follow(pid, time_ns, take)
    _take((), source.flows_before(), report, recording)
    return ended


def _take(
    events: "tuple[FlowEvent, ...]",
    flows_before: int,
    report: "_FlowReport",
    recording: "RecordingWriter | None",
) -> None:
    from kernel_delay.recording.records import FlowEvents

    if recording is not None:
        recording.flow_events(FlowEvents(events, flows_before))
    report.take(events, flows_before)


class _FlowReport:
    """Lines for each event that is asked for, and at the end what they come to; or JSON."""

    def __init__(
        self, args: argparse.Namespace, header: "Callable[[], RecordingHeader]", stack: ExitStack
    ) -> None:
        from kernel_delay.ovs.flow_key import FlowFilter
        from kernel_delay.ovs.flows import FlowChurn
        from kernel_delay.reporters.flows import CutEvents

        self._filter = FlowFilter(args.filter_flows) if args.filter_flows else None
        self._reasons = _reasons(args.reason)
        self._ufid = ufid_of(args)
        self._churn = FlowChurn()
        self._cut = CutEvents()
        self._flows_before = self._passed_over = 0
        self._json = output_options.open_json(args.json_file, stack)
        self._text = output_options.has_text(args.json_file)
        self._lines = self._text and not args.quiet
        self._keys = args.flow_keys
        self._begun = False
        self._page = None
        if args.html is not None:
            from kernel_delay.reporters.page.monitors import FlowsPage

            self._page = page_options.EventPage(args.html, "flows", header(), FlowsPage())

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read, that was printed already."""
        if self._page is not None:
            self._page.note(text)

    def take(self, events: "Iterable[FlowEvent]", flows_before: int) -> None:
        """Count and print; of the flows from before the start, `flows_before` are known by now."""
        self._flows_before = flows_before
        for event in events:
            if self._is_wanted(event):
                self._put_out(event)
            else:
                self._passed_over += 1
        if self._text:
            sys.stdout.flush()

    def finish(self, missed: "Mapping[str, int]") -> None:
        """Sum up."""
        from kernel_delay.reporters.flows import render
        from kernel_delay.reporters.missed import missed_lines

        summary = render(self._churn, self._flows_before, self._passed_over)
        lines = [*self._cut.lines(), *missed_lines(missed)]
        apart = f"\n{summary}" if self._begun else summary
        monitoring.sum_up(apart, lines, as_text=self._text)
        if self._page is not None:
            self._page.finish(summary, lines)

    def _is_wanted(self, event: "FlowEvent") -> bool:
        if not event.ufid.startswith(self._ufid):
            return False
        if self._reasons is not None and not _is_deletion_for(self._reasons, event):
            return False
        return self._filter is None or self._filter.covers(event.key, event.mask, cut=event.is_cut)

    def _put_out(self, event: "FlowEvent") -> None:
        from kernel_delay.reporters.flows import HEADER, event_lines, json_of

        came_back = self._churn.take(event)
        self._cut.take(event)
        if self._json is not None:
            self._json(json_of(event, came_back=came_back))
        if self._page is not None:
            self._page.contents.add(event, came_back=came_back)
        if not self._lines:
            return
        if not self._begun:
            self._begun = True
            print(HEADER)
        for line in event_lines(event, match=self._keys, came_back=came_back):
            print(line)


def _ufid(text: str) -> str:
    """How UFIDs begin that are asked for, as events have them."""
    ufid = text.lower().removeprefix("ufid:")
    begins = "".join("0" if sign in string.hexdigits else sign for sign in ufid)
    if not ufid or not UFID_ZERO.startswith(begins):
        raise argparse.ArgumentTypeError(f"must be a UFID or its beginning, not {text!r}")
    return ufid


_Reasons = frozenset[str | int]


def _is_deletion_for(reasons: _Reasons, event: "FlowEvent") -> bool:
    return event.change == "delete" and not reasons.isdisjoint((event.reason, event.reason_number))


def _reasons(names: str | None) -> _Reasons | None:
    """Those that are asked for by name or number, None for all; UsageError for what is neither."""
    if names is None:
        return None
    return frozenset(map(_reason, names.split(",")))


def _reason(text: str) -> str | int:
    from kernel_delay.ovs.flows import REASONS, UNKNOWN_REASON

    name = text.strip().lower()
    if name in REASONS:
        return name
    name = name.removeprefix(UNKNOWN_REASON)
    if name.isdecimal() and len(name) <= LONGEST_REASON_NUMBER:
        return int(name)
    raise UsageError(f"there is no reason {text!r}; there are: {', '.join(REASONS)}, and numbers")
