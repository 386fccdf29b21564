"""`kernel-delay datapath-ops`: what ovs-vswitchd asks of the kernel's datapath, and the answers."""

import argparse
import sys
import time
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.commands import flows, monitoring
from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.commands.options import upstream as upstream_options
from kernel_delay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kernel_delay.errors import InputError
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.model import RecordingHeader
    from kernel_delay.ovs.monitors.datapath_operations import DatapathOperations
    from kernel_delay.ovs.operations import Operation, OperationEvent, Request
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.records import OperationEvents, Read
    from kernel_delay.recording.writer import RecordingWriter

# Of 64 KiB at most each, so that a record of a recording stays small.
EVENTS_AT_ONCE = 100
PACKET_INDENT = " " * 8

TRACED: "Mapping[str, tuple[Operation, ...]]" = MappingProxyType(
    {
        "put": ("flow_new", "flow_set"),
        "del": ("flow_del",),
        "get": ("flow_get",),
        "exec": ("packet_execute",),
    }
)
"""What dpif_op_nl_monitor.py's options trace: DPIF_OP_FLOW_PUT and the like of lib/dpif.h."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: which operations, how much to print, and how long."""
    target_options.add_arguments(parser)
    output_options.add_quiet(parser)
    flows.add_filter_arguments(parser)
    add_report_arguments(parser)
    output_options.add_json(parser, "operation")
    page_options.add_html(parser)
    recording_options.add_arguments(parser)
    output_options.add_packet_decode(parser)
    output_options.add_pcap(parser, "packets of executions")
    upstream_options.add_to_datapath_ops(parser)
    arguments.add_buffer_pages(parser)
    arguments.add_time(parser)


def add_report_arguments(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """The options that a report from a recording has too, beside those of other commands."""
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


def run(args: argparse.Namespace) -> int:
    """Follow the operations, and then sum up."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.ovs.monitors.datapath_operations import DatapathOperations

    target = target_options.find_to_measure(args)
    with ExitStack() as stack:
        header = partial(recording_options.header_of, "datapath-ops", target)
        report = _OperationReport(args, header, stack)
        ring_bytes = arguments.buffer_bytes(args.buffer_page_count)
        operations = DatapathOperations(target.pid, ring_bytes)
        recording = recording_options.open_writer(args, header, stack)
        source = stack.enter_context(operations)
        monitoring.keep_rights(args)
        follow = partial(_follow, source, report, recording, target.pid, args.time_ns)
        ended = monitoring.monitor("datapath operations", target, source, report, recording, follow)
    return monitoring.print_end(ended, target)


def report_recording(recording: "RecordingReader", args: argparse.Namespace) -> "InputError | None":
    """Print what run() printed when it was recorded; return why it is not all, None if it is."""
    from kernel_delay.recording.records import OperationEvents

    with ExitStack() as stack:
        report = _OperationReport(args, lambda: recording.header, stack)

        def take(record: "Read") -> None:
            if isinstance(record, OperationEvents):
                report.take(record)

        return monitoring.replay(recording, report, take)


def _follow(
    source: "DatapathOperations",
    report: "_OperationReport",
    recording: "RecordingWriter | None",
    pid: int,
    time_ns: int | None,
) -> "Ended":
    """Take operations until the end; returns what ended it."""
    from kernel_delay.loader.follow import follow
    from kernel_delay.recording.records import OperationEvents

    def take() -> bool:
        since_epoch_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        remaining = iter(source.take())
        while batch := tuple(islice(remaining, EVENTS_AT_ONCE)):
            record = OperationEvents(batch, since_epoch_ns)
            if recording is not None:
                recording.operation_events(record)
            report.take(record)
        return False

    return follow(pid, time_ns, take)


class _OperationReport:
    """Lines for each operation that is asked for, and at the end what they come to; or JSON."""

    def __init__(
        self, args: argparse.Namespace, header: "Callable[[], RecordingHeader]", stack: ExitStack
    ) -> None:
        from kernel_delay.ovs.flow_key import FlowFilter
        from kernel_delay.ovs.packets.pcapng import PcapngWriter
        from kernel_delay.reporters.datapath_ops import Summary

        output_options.check_pcap(args)
        self._filter = FlowFilter(args.filter_flows) if args.filter_flows else None
        self._ufid = flows.ufid_of(args)
        self._answer = args.answer
        self._operations = _operations(args.operation, args.traced)
        self._message = args.nlmsg_decode
        self._summary = Summary()
        self._passed_over = 0
        self._json = output_options.open_json(args.json_file, stack)
        self._text = output_options.has_text(args.json_file)
        self._lines = self._text and not args.quiet
        self._file = stack.enter_context(PcapngWriter(args.pcap)) if args.pcap else None
        self._begun = False
        self._decode = _decoder(args.packet_decode)
        self._page = None
        if args.html is not None:
            from kernel_delay.reporters.page.monitors import OperationsPage

            self._page = page_options.EventPage(
                args.html, "datapath-ops", header(), OperationsPage()
            )

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read, that was printed already."""
        if self._page is not None:
            self._page.note(text)

    def take(self, record: "OperationEvents") -> None:
        """Count and print."""
        from kernel_delay.ovs.operations import read_request

        for event in record.events:
            request = read_request(event.operation, event.message, event.message_len)
            if not self._is_wanted(event, request):
                self._passed_over += 1
                continue
            self._put_out(event, request)
            if self._file is not None and request.packet is not None:
                self._write_packet(event, request, record.since_epoch_ns)
        if self._text:
            sys.stdout.flush()

    def finish(self, missed: "Mapping[str, int]") -> None:
        """Sum up."""
        from kernel_delay.reporters.missed import missed_lines

        summary, lines = self._summary.render(self._passed_over), missed_lines(missed)
        apart = f"\n{summary}" if self._begun else summary
        monitoring.sum_up(apart, lines, as_text=self._text)
        if self._page is not None:
            self._page.finish(summary, lines)

    def _is_wanted(self, event: "OperationEvent", request: "Request") -> bool:
        from kernel_delay.ovs.operations.message import packet_headers

        if self._operations is not None and event.operation not in self._operations:
            return False
        if self._answer != "any" and (self._answer == "ok") != (event.error == 0):
            return False
        if self._ufid and not (request.ufid or "").startswith(self._ufid):
            return False
        if self._filter is None:
            return True
        key = request.key or b""
        if request.packet is not None:
            key += packet_headers(request)
        return bool(key) and self._filter.covers(key, request.mask or b"", cut=event.is_cut)

    def _put_out(self, event: "OperationEvent", request: "Request") -> None:
        from kernel_delay.reporters.datapath_ops import HEADER, event_lines, json_of

        self._summary.take(event)
        if self._json is not None:
            self._json(json_of(event, request))
        if self._page is not None:
            self._page.contents.add(event, request)
        if not self._lines:
            return
        if not self._begun:
            self._begun = True
            print(HEADER)
        first, *asked = event_lines(event, request)
        print(first)
        for line in self._asked(event, asked):
            print(line)
        for line in self._decode(request.packet) if request.packet else ():
            print(PACKET_INDENT + line)

    def _asked(self, event: "OperationEvent", decoded: "Sequence[str]") -> "Sequence[str]":
        """What is shown of the message: `decoded` if it is to be."""
        match self._message:
            case "nlraw":
                return decoded
            case "hex":
                from kernel_delay.ovs.packets.hexdump import hex_lines

                return [PACKET_INDENT + line for line in hex_lines(event.message)]
        return ()

    def _write_packet(
        self, event: "OperationEvent", request: "Request", since_epoch_ns: int
    ) -> None:
        from kernel_delay.ovs.flow_key import datapath_port
        from kernel_delay.reporters.datapath_ops import event_lines

        assert self._file is not None
        assert request.packet is not None
        port = datapath_port(request.key or b"")
        self._file.write_packet(
            event.time_ns + since_epoch_ns,
            "no port" if port is None else f"port {port}",
            request.packet,
            len(request.packet),
            [" ".join(line.split()) for line in event_lines(event, request)],
        )


def _decoder(form: str) -> "Callable[[bytes], Sequence[str]]":
    """What shows a packet's lines."""
    from kernel_delay.ovs.packets.hexdump import hex_lines
    from kernel_delay.ovs.packets.packet import packet_decoder

    match form:
        case "hex":
            return hex_lines
        case "decode":
            return packet_decoder()
    return lambda packet: ()


def _operations(
    names: str | None, traced: "Sequence[Sequence[Operation]] | None"
) -> frozenset[str] | None:
    """Those that are asked for, None for all; UsageError for one that there is not."""
    from kernel_delay.ovs.operations import OPERATIONS

    if names is None and traced is None:
        return None
    wanted = frozenset[str](chain.from_iterable(traced or ()))
    wanted |= {name.strip().lower() for name in (names or "").split(",") if names is not None}
    unknown = sorted(wanted - {*OPERATIONS})
    if unknown:
        raise UsageError(
            f"there is no operation {unknown[0]!r}; there are: {', '.join(OPERATIONS)}"
        )
    return wanted
