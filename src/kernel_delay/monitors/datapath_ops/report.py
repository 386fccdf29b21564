"""Lines for each operation that is asked for, and at the end what they come to; or JSON."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.errors import UsageError
from kernel_delay.monitors.datapath_ops.events import OperationEvents
from kernel_delay.monitors.monitor import Report
from kernel_delay.ovs.flow_key import FlowFilter, datapath_port
from kernel_delay.ovs.operations import (
    OPERATIONS,
    Operation,
    OperationEvent,
    Request,
    read_request,
)
from kernel_delay.ovs.operations.message import packet_headers
from kernel_delay.ovs.packets.hexdump import hex_lines
from kernel_delay.ovs.packets.packet import packet_decoder
from kernel_delay.ovs.packets.pcapng import PcapngWriter
from kernel_delay.reporters.datapath_ops import HEADER, Summary, event_lines, json_of

if TYPE_CHECKING:
    from kernel_delay.model import RecordingHeader
    from kernel_delay.reporters.page.monitors import OperationsPage

PACKET_INDENT = " " * 8


class OperationReport(Report[OperationEvents, "OperationsPage"]):
    """Operations of the kernel's datapath."""

    LOST = MappingProxyType(
        {
            "operations": "operations were lost: a larger --buffer-page-count helps",
            "replies": "messages that were sent back were lost: a larger --buffer-page-count helps",
        }
    )

    def __init__(
        self,
        args: argparse.Namespace,
        header: "Callable[[], RecordingHeader | None]",
        stack: ExitStack,
    ) -> None:
        """Raise UsageError for an operation that there is not."""
        output_options.check_pcap(args)
        self._filter = FlowFilter(args.filter_flows) if args.filter_flows else None
        self._operations = _operations(args.operation, args.traced)
        super().__init__(args, header, stack)
        self._ufid: str = args.ufid or ""
        self._answer: str = args.answer
        self._message: str = args.nlmsg_decode
        self._summary = Summary()
        self._passed_over = 0
        self._file = stack.enter_context(PcapngWriter(args.pcap)) if args.pcap else None
        self._decode = _decoder(args.packet_decode)

    def take(self, record: OperationEvents) -> OperationEvents:
        """Count and print."""
        for event in record.events:
            request = read_request(event.operation, event.message, event.message_len)
            if not self._is_wanted(event, request):
                self._passed_over += 1
                continue
            self._put_out(event, request)
            if self._file is not None and request.packet is not None:
                self._write_packet(event, request, record.since_epoch_ns)
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""
        self._sum_up(self._summary.render(self._passed_over), self.missed_lines(missed))

    def _contents(self) -> "OperationsPage":
        from kernel_delay.reporters.page.monitors import OperationsPage

        return OperationsPage()

    def _is_wanted(self, event: OperationEvent, request: Request) -> bool:
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

    def _put_out(self, event: OperationEvent, request: Request) -> None:
        self._summary.take(event)
        if self._json is not None:
            self._json(json_of(event, request))
        if self._page is not None:
            self._page.contents.add(event, request)
        if not self._lines:
            return
        first, *asked = event_lines(event, request)
        packet = self._decode(request.packet) if request.packet else ()
        lines = [*self._asked(event, asked), *(PACKET_INDENT + line for line in packet)]
        self._print_below(HEADER, first, *lines)

    def _asked(self, event: OperationEvent, decoded: Sequence[str]) -> Sequence[str]:
        """What is shown of the message: `decoded` if it is to be."""
        match self._message:
            case "nlraw":
                return decoded
            case "hex":
                return [PACKET_INDENT + line for line in hex_lines(event.message)]
        return ()

    def _write_packet(self, event: OperationEvent, request: Request, since_epoch_ns: int) -> None:
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


def _decoder(form: str) -> Callable[[bytes], Sequence[str]]:
    """What shows a packet's lines."""
    match form:
        case "hex":
            return hex_lines
        case "decode":
            return packet_decoder()
    return lambda packet: ()


def _operations(
    names: str | None, traced: Sequence[Sequence[Operation]] | None
) -> frozenset[str] | None:
    """Those that are asked for, None for all; UsageError for one that there is not."""
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
