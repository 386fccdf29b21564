"""`kernel-delay upcall-monitor`: every upcall that ovs-vswitchd receives or the kernel drops."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from kernel_delay.commands import monitoring
from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.reporters.messages import print_exit, print_message

if TYPE_CHECKING:
    from kernel_delay.errors import InputError
    from kernel_delay.ovs.upcalls import Event
    from kernel_delay.ovs.upcalls.port_names import PortName
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.records import UpcallEvents as Batch
    from kernel_delay.reporters.upcall_monitor import Show, Upcall


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: which upcalls, how much of each, and how to show it."""
    target_options.add_arguments(parser)
    add_report_arguments(parser)
    output_options.add_json(parser, "upcall")
    arguments.add_capture_sizes(parser, "-s")
    arguments.add_buffer_pages(parser)
    arguments.add_time(parser)
    recording_options.add_arguments(parser)


def add_report_arguments(parser: argparse._ActionsContainer) -> list[argparse.Action]:
    """The options that a report from a recording has too; --json is every command's."""
    return [
        output_options.add_packet_decode(parser),
        parser.add_argument(
            "-k",
            "--flow-key-decode",
            choices=("none", "hex", "nlraw", "decode"),
            default="none",
            help="show flow keys: as bytes (hex), as netlink attributes (nlraw), or as"
            " ovs-dpctl does (decode) (default: %(default)s)",
        ),
        *output_options.add_pcap(parser),
        parser.add_argument(
            "-r",
            "--result",
            choices=("ok", "error", "any"),
            default="any",
            help="show upcalls that were received (ok), that the kernel dropped (error), or any"
            " (default: %(default)s)",
        ),
    ]


def run(args: argparse.Namespace) -> int:
    """Show upcalls as they come, until the time is over or Ctrl-C."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.loader.follow import rounds
    from kernel_delay.loader.waiting import watch
    from kernel_delay.ovs.monitors.upcall_events import UpcallEvents, UpcallPlan

    target = target_options.find_to_measure(args)
    plan = UpcallPlan(
        args.packet_size,
        args.flow_key_size,
        whole_trip=False,
        ring_bytes=arguments.buffer_bytes(args.buffer_page_count),
    )
    with ExitStack() as stack:
        monitor = _Monitor(args, stack)
        header = partial(recording_options.header_of, "upcall-monitor", target)
        recording = recording_options.open_writer(args, header, stack)
        events = stack.enter_context(UpcallEvents(target.pid, plan))
        monitoring.keep_rights(args)
        waiter = stack.enter_context(watch(target.pid))
        for note in events.notes:
            recording_options.noting(recording)(note)
        monitor.begin()
        last = None
        for last in rounds(waiter, args.time_ns):
            for batch in _batches(events.take()):
                if recording is not None:
                    recording.upcall_events(batch)
                monitor.take(batch)
            if last == "exit":
                print_exit(target.pid)
        missed = events.missed()
        recording_options.finish(recording, last or "interrupt", missed)
    monitor.finish(sum(missed.values()))
    return os.EX_OK


def report_recording(recording: "RecordingReader", args: argparse.Namespace) -> "InputError | None":
    """Print what run() printed when it was recorded; return why it is not all, None if it is."""
    from kernel_delay.recording.reader import IntactRecords
    from kernel_delay.recording.records import Note, UpcallEvents

    reading = IntactRecords(recording)
    with ExitStack() as stack:
        monitor = _Monitor(args, stack)
        monitor.begin()
        for record in reading:
            match record:
                case UpcallEvents():
                    monitor.take(record)
                case Note():
                    print_message(record.text)
    monitor.finish(sum(recording.trailer.lost.values()) if recording.trailer else 0)
    return reading.damage


def _batches(events: "Iterable[Event | PortName]") -> "Iterator[Batch]":
    """What has come of a round, some at a time, with how its clock stands to that of the day."""
    from kernel_delay.recording.records import EVENTS_AT_ONCE, UpcallEvents

    since_epoch_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    remaining = iter(events)
    while batch := tuple(islice(remaining, EVENTS_AT_ONCE)):
        yield UpcallEvents(batch, since_epoch_ns)


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

    def __init__(self, args: argparse.Namespace, stack: ExitStack) -> None:
        from kernel_delay.ovs.packets.pcapng import PcapngWriter
        from kernel_delay.ovs.upcalls.port_names import PortNames

        output_options.check_pcap(args)
        self._received = 0
        self._dropped: Counter[str] = Counter()
        self._shown = 0
        self._result = args.result
        self._json = output_options.open_json(args.json_file, stack)
        self._text = output_options.has_text(args.json_file)
        self._show = _show(args)
        self._file = stack.enter_context(PcapngWriter(args.pcap)) if args.pcap else None
        self._ports = PortNames()

    def begin(self) -> None:
        """Print what is above all upcalls."""
        from kernel_delay.reporters.upcall_monitor import HEADER

        if self._text:
            print(HEADER, flush=True)

    def take(self, batch: "Batch") -> None:
        """Take the next events."""
        for event in batch.events:
            self._take(event, batch.since_epoch_ns)
        if self._text:
            sys.stdout.flush()

    def finish(self, missed: int) -> None:
        """Print what it all came to; `missed` events were missed."""
        from kernel_delay.reporters.upcall_monitor import missed_text, summary

        if self._text:
            print(summary(self._received, self._dropped, missed))
        elif missed:
            print_message(missed_text(missed))

    def _take(self, event: "Event | PortName", since_epoch_ns: int) -> None:
        from kernel_delay.host.errnos import error_name
        from kernel_delay.ovs.upcalls import DpUpcall, RecvUpcall
        from kernel_delay.ovs.upcalls.port_names import PortName

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

    def _put_out(self, upcall: "Upcall", since_epoch_ns: int) -> None:
        from kernel_delay.reporters.upcall_monitor import (
            comment,
            json_of,
            key_comments,
            port_number,
            upcall_lines,
        )

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
