"""`kernel-delay upcall-monitor`: every upcall that ovs-vswitchd receives or the kernel drops."""

import argparse
import os
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import target as target_options
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from kernel_delay.ovs.packets.pcapng import PcapngWriter
    from kernel_delay.ovs.upcalls import Event
    from kernel_delay.ovs.upcalls.port_names import PortName
    from kernel_delay.reporters.upcall_monitor import Show, Upcall


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: which upcalls, how much of each, and how to show it."""
    target_options.add_arguments(parser)
    parser.add_argument(
        "-d",
        "--packet-decode",
        choices=("none", "hex", "decode"),
        default="none",
        help="show packets: as bytes, or by layers, with scapy (default: %(default)s)",
    )
    parser.add_argument(
        "-k",
        "--flow-key-decode",
        choices=("none", "hex", "nlraw", "decode"),
        default="none",
        help="show flow keys: as bytes, as netlink attributes, or as ovs-dpctl writes them"
        " (default: %(default)s)",
    )
    arguments.add_capture_sizes(parser, "-s")
    parser.add_argument(
        "-w",
        "--pcap",
        type=Path,
        metavar="FILE",
        help="write the packets to FILE too, in the pcapng format",
    )
    parser.add_argument(
        "-r",
        "--result",
        choices=("ok", "error", "any"),
        default="any",
        help="upcalls that were received, that the kernel dropped, or both (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Show upcalls as they come, until Ctrl-C."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.loader.follow import rounds
    from kernel_delay.loader.waiting import watch
    from kernel_delay.ovs.monitors.upcall_events import UpcallEvents, UpcallPlan
    from kernel_delay.ovs.packets.pcapng import PcapngWriter
    from kernel_delay.reporters import upcall_monitor

    target = target_options.find_to_measure(args)
    show = _show(args)
    plan = UpcallPlan(args.packet_size, args.flow_key_size, whole_trip=False)
    with ExitStack() as stack:
        file = stack.enter_context(PcapngWriter(args.pcap)) if args.pcap is not None else None
        monitor = _Monitor(args.result, show, file)
        events = stack.enter_context(UpcallEvents(target.pid, plan))
        waiter = stack.enter_context(watch(target.pid))
        for note in events.notes:
            tell(note)
        print(upcall_monitor.HEADER, flush=True)
        for ended in rounds(waiter, None):
            monitor.begin_round()
            for event in events.take():
                monitor.take(event)
            sys.stdout.flush()
            if ended == "exit":
                tell(f"process {target.pid} exited")
        missed = sum(events.missed().values())
    print(upcall_monitor.summary(monitor.received, monitor.dropped, missed))
    return os.EX_OK


def _show(args: argparse.Namespace) -> "Show":
    from kernel_delay.ovs.packets.hexdump import hex_lines
    from kernel_delay.ovs.packets.packet import packet_decoder
    from kernel_delay.reporters.upcall_monitor import Show

    match args.packet_decode:
        case "hex":
            return Show(hex_lines, args.flow_key_decode)
        case "decode":
            return Show(packet_decoder(), args.flow_key_decode)
    return Show(None, args.flow_key_decode)


class _Monitor:
    """Takes events to the terminal and the file; counts upcalls, whether or not they are shown."""

    def __init__(self, result: str, show: "Show", file: "PcapngWriter | None") -> None:
        from kernel_delay.ovs.upcalls.port_names import PortNames

        self.received = 0
        self.dropped: Counter[str] = Counter()
        self._shown = 0
        self._result = result
        self._show = show
        self._file = file
        self._ports = PortNames()
        self._since_epoch_ns = 0

    def begin_round(self) -> None:
        """Note how the events' clock stands to that of the day, which may be set."""
        self._since_epoch_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def take(self, event: "Event | PortName") -> None:
        """Take the next event."""
        from kernel_delay.ovs.upcalls import DpUpcall, RecvUpcall
        from kernel_delay.ovs.upcalls.port_names import PortName
        from kernel_delay.reporters.upcall_monitor import error_name

        match event:
            case PortName():
                self._ports.learn(event)
            case RecvUpcall():
                self.received += 1
                if self._result != "error":
                    self._put_out(event)
            case DpUpcall():
                self.dropped[error_name(event.error)] += 1
                if self._result != "ok":
                    self._put_out(event)

    def _put_out(self, upcall: "Upcall") -> None:
        from kernel_delay.reporters.upcall_monitor import comment, port_number, upcall_lines

        self._shown += 1
        port = self._ports.name(upcall.datapath, port_number(upcall))
        print("\n".join(upcall_lines(upcall, port, self._shown, self._show)))
        if self._file is not None:
            time_ns = upcall.time_ns + self._since_epoch_ns
            comments = [comment(upcall, port)]
            self._file.write_packet(time_ns, port, upcall.packet, upcall.packet_len, comments)
