"""Lines for each upcall that is received or dropped, and a file of their packets; or JSON."""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.host.errnos import error_name
from kernel_delay.monitors.monitor import Report
from kernel_delay.monitors.upcalls.events import UpcallEvents
from kernel_delay.ovs.packets.hexdump import hex_lines
from kernel_delay.ovs.packets.packet import packet_decoder
from kernel_delay.ovs.packets.pcapng import PcapngWriter
from kernel_delay.ovs.upcalls import DpUpcall, Event, RecvUpcall
from kernel_delay.ovs.upcalls.port_names import PortName, PortNames
from kernel_delay.reporters.messages import print_message
from kernel_delay.reporters.upcall_monitor import (
    HEADER,
    Show,
    Upcall,
    comment,
    json_of,
    key_comments,
    missed_text,
    port_number,
    summary,
    upcall_lines,
)

if TYPE_CHECKING:
    from kernel_delay.model import RecordingHeader


class MonitorReport(Report[UpcallEvents, Any]):
    """Upcalls, counted whether or not they are shown."""

    def __init__(
        self,
        args: argparse.Namespace,
        header: "Callable[[], RecordingHeader | None]",
        stack: ExitStack,
    ) -> None:
        """Raise OutputError where a file of packets would be lost."""
        output_options.check_pcap(args)
        super().__init__(args, header, stack)
        self._received = self._shown = 0
        self._dropped = Counter[str]()
        self._result: str = args.result
        self._show = _show(args)
        self._file = stack.enter_context(PcapngWriter(args.pcap)) if args.pcap else None
        self._ports = PortNames()

    def begin(self) -> None:
        """Print what is above all upcalls."""
        if self._text:
            print(HEADER, flush=True)

    def take(self, record: UpcallEvents) -> UpcallEvents:
        """Take the next events."""
        for event in record.events:
            self._take(event, record.since_epoch_ns)
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Print what it all came to."""
        lost = sum(missed.values())
        if self._text:
            print(summary(self._received, self._dropped, lost))
        elif lost:
            print_message(missed_text(lost))

    def _take(self, event: Event | PortName, since_epoch_ns: int) -> None:
        match event:
            case PortName():
                self._ports.learn(event)
            case RecvUpcall():
                self._received += 1
                if self._result != "error":
                    self._put_out(event, since_epoch_ns)
            case DpUpcall():
                self._dropped[error_name(event.error)] += 1
                if self._result != "ok":
                    self._put_out(event, since_epoch_ns)

    def _put_out(self, upcall: Upcall, since_epoch_ns: int) -> None:
        self._shown += 1
        port = self._ports.name(upcall.datapath, port_number(upcall))
        if self._json is not None:
            self._json(json_of(upcall, port))
        if self._text:
            print("\n".join(upcall_lines(upcall, port, self._shown, self._show)))
        if self._file is not None:
            time_ns = upcall.time_ns + since_epoch_ns
            comments = [comment(upcall, port), *key_comments(upcall, self._show.key)]
            self._file.write_packet(time_ns, port, upcall.packet, upcall.packet_len, comments)


def _show(args: argparse.Namespace) -> Show:
    match args.packet_decode:
        case "hex":
            return Show(hex_lines, args.flow_key_decode)
        case "decode":
            return Show(packet_decoder(), args.flow_key_decode)
    return Show(None, args.flow_key_decode)
