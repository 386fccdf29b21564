"""What monitors have in common: their options, how one runs, and how its recording is reported."""

import argparse
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.errors import UsageError
from kernel_delay.monitors.options import check_pcap
from kernel_delay.register import command_module
from kernel_delay.reporters import print_exit, print_message

if TYPE_CHECKING:
    from pathlib import Path

    from kernel_delay.errors import InputError
    from kernel_delay.host.target import ProcessTarget
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.model import RecordingHeader
    from kernel_delay.openvswitch.packets import PcapngWriter
    from kernel_delay.openvswitch.programs import Probes
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.records import Events
    from kernel_delay.recording.writer import RecordingWriter
    from kernel_delay.reporters.page.monitor_page import Contents


_Record = TypeVar("_Record", bound="Events")
_Source = TypeVar("_Source", bound="Probes")
_Item = TypeVar("_Item")
_Options = TypeVar("_Options", bound=NamedTuple)

AddArguments = Callable[[argparse._ActionsContainer], Sequence[argparse.Action]]
"""What adds options of a report from a recording, to any group."""


class Outputs(NamedTuple):
    """The outputs that are asked for.

    `json` writes a line of JSON, and `packets` a file of packets. `text` says whether stdout has
    text, and `lines` whether that has single events. At most `most` events are wanted; None: all.
    """

    json: Callable[[object], None] | None
    text: bool
    lines: bool
    page: page_options.EventPage[Any] | None
    packets: "PcapngWriter | None"
    most: int | None


OpenOutputs = Callable[[], Outputs]
"""What opens them; raises OutputError where one can't be opened."""

Opener = Callable[[Callable[[], "RecordingHeader | None"], ExitStack], OpenOutputs]
"""What makes that, which the stack closes; the header says what a page is of."""


RULES_LOST: Mapping[str, str] = MappingProxyType(
    {"unanswered_rules": "flows have no rules: Open vSwitch gave no answer"}
)
"""A part of LOST, of monitors with --rules."""


class Report(ABC, Generic[_Record]):
    """What is reported of a monitor's records: text or JSON as they come, a sum, and a page."""

    LOST: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What a recording's trailer calls what was lost, and what that means, behind its count."""

    def __init__(self, outputs: Outputs) -> None:
        """Report to these outputs."""
        self.has_enough = False
        self._most = outputs.most
        self._json = outputs.json
        self._text = outputs.text
        self._lines = outputs.lines
        self._page: page_options.EventPage[Any] | None = outputs.page
        self._packets = outputs.packets
        self._begun = False

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read, that was printed already."""
        if self._page is not None:
            self._page.note(text)

    def begin(self) -> None:
        """Print what is above all events; most print that with the first."""

    @abstractmethod
    def take(self, record: _Record) -> _Record:
        """Count and print. Return as much of it as was asked for, where that is not all."""

    def flush(self) -> None:
        """Show what was printed."""
        if self._text:
            sys.stdout.flush()

    @abstractmethod
    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""

    @classmethod
    def missed_lines(cls, missed: Mapping[str, int]) -> list[str]:
        """What was not seen, a line each."""
        known = ((count, cls.LOST[kind]) for kind, count in missed.items() if kind in cls.LOST)
        return [f"{count:,} {meaning}" for count, meaning in known if count]

    def _print_below(self, header: str, *lines: str) -> None:
        """Print lines, the first time with a header above."""
        if not self._begun:
            self._begun = True
            print(header)
        for line in lines:
            print(line)

    def _sum_up(self, summary: str, lines: Sequence[str]) -> None:
        """Print the summary, and what was not seen: that also where stdout has no text."""
        if self._text:
            print("\n".join([f"\n{summary}" if self._begun else summary, *lines]))
        else:
            for line in lines:
                print_message(line)
        if self._page is not None:
            self._page.finish(summary, lines)


class Monitor(ABC, Generic[_Record, _Source, _Options]):
    """A command that follows ovs-vswitchd's own events.

    `command` is its name, and `activity` what it says that it is doing; None: it says nothing.
    """

    command: ClassVar[str]
    activity: ClassVar[str | None]

    options: type[_Options]
    """Its own options, a field for each by the name that argparse has for it.

    Those that a report from a recording has not have defaults there.
    """

    report_arguments: ClassVar[Sequence[AddArguments]] = ()
    """What adds the options that a report from a recording has too. Monitors can share some."""

    report_options: ClassVar[Collection[str]] = ("quiet", "html")
    """Which of the options of `report` itself, beside --json, a report from a recording has."""

    @abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options."""

    @abstractmethod
    def open_report(self, options: _Options, open_outputs: OpenOutputs) -> Report[_Record]:
        """What reports. Raises UsageError for an option's value before an output is opened."""

    def page(self) -> "Contents":
        """The empty contents of a page."""
        raise NotImplementedError

    @abstractmethod
    def open_source(self, options: _Options, pid: int) -> _Source:
        """What attaches the programs to process `pid`; NoInputError if it lacks the probes."""

    @abstractmethod
    def take(self, source: _Source) -> Iterator[_Record]:
        """Take away and yield what has come, in records that are not large."""

    def rest(self, source: _Source) -> Iterator[_Record]:
        """Yield what there is to record when nothing follows."""
        yield from ()

    def report_file(self, file: "Path", options: _Options, opener: Opener) -> "InputError | None":
        """Report what was written before; return why it is not all, or None.

        Of a command with --read-events.
        """
        raise NotImplementedError

    def run(self, args: argparse.Namespace) -> int:
        """Follow the process, report what comes, and then sum up; return the exit code.

        With --read-events it reports from a file; raises InputError for damage.
        """
        if getattr(args, "read_events", None) is not None:
            return self._report_file(args)
        # Only a command that runs pays for what it imports.
        from kernel_delay.host import privileges

        options = self._options(args)
        target = target_options.find_to_measure(args)
        with ExitStack() as stack:
            header = partial(recording_options.header_of, self.command, target)
            report = self.open_report(options, self.opener(args, header, stack))
            # Nothing of it runs in the kernel any more while it is summed up.
            with ExitStack() as measuring:
                source = self.open_source(options, target.pid)
                writer = recording_options.open_writer(args, header, measuring)
                measuring.enter_context(source)
                # What was needed to attach alone.
                privileges.keep_only((), output_options.given(args))
                ended = self._follow(source, report, writer, target, args.time_ns)
                missed = source.missed()
                recording_options.finish(writer, ended, missed)
            report.finish(missed)
        if ended == "exit":
            print_exit(target.pid)
        return os.EX_OK

    def report_recording(
        self, recording: "RecordingReader", args: argparse.Namespace
    ) -> "InputError | None":
        """Print what run() printed when it was recorded; return why it is not all, or None."""
        with ExitStack() as stack:
            open_outputs = self.opener(args, lambda: recording.header, stack)
            return replay(recording, self.open_report(self._options(args), open_outputs))

    def _options(self, args: argparse.Namespace) -> _Options:
        given = vars(args)
        kind: Callable[..., _Options] = self.options
        return kind(**{name: given[name] for name in self.options._fields if name in given})

    def _report_file(self, args: argparse.Namespace) -> int:
        if target_options.is_given(args) or args.recording_file is not None:
            raise UsageError("--read-events takes neither --pid nor --write-events")
        if args.time_ns is not None:
            raise UsageError("--read-events takes no --time: -s stops after so many events")
        output_options.refuse_inputs([str(args.read_events)], [args.json_file, args.html])
        opener = partial(self.opener, args)
        damage = self.report_file(args.read_events, self._options(args), opener)
        if damage is not None:
            raise damage
        return os.EX_OK

    def opener(
        self,
        args: argparse.Namespace,
        header: "Callable[[], RecordingHeader | None]",
        stack: ExitStack,
    ) -> OpenOutputs:
        """What opens the outputs, which `stack` closes; `header` says what a page is of."""

        def open_outputs() -> Outputs:
            file = getattr(args, "pcap", None)
            if file is not None or getattr(args, "overwrite", False):
                check_pcap(args)
            json = output_options.open_json(args.json_file, stack)
            text = output_options.has_text(args.json_file)
            page = packets = None
            if getattr(args, "html", None) is not None:
                page = page_options.EventPage(args.html, header(), self.page())
            if file is not None:
                from kernel_delay.openvswitch.packets import PcapngWriter

                packets = stack.enter_context(PcapngWriter(file))
            lines = text and not getattr(args, "quiet", False)
            return Outputs(json, text, lines, page, packets, getattr(args, "count", None))

        return open_outputs

    def _follow(
        self,
        source: _Source,
        report: Report[_Record],
        writer: "RecordingWriter | None",
        target: "ProcessTarget",
        time_ns: int | None,
    ) -> "Ended":
        # Only a command that runs pays for what it imports.
        from kernel_delay.loader.waiting import follow

        def take_all(records: Iterator[_Record]) -> bool:
            for record in records:
                taken = report.take(record)
                if writer is not None:
                    writer.events(taken)
                report.flush()
                if report.has_enough:
                    break
            return report.has_enough

        def begin() -> None:
            report.begin()
            if self.activity is not None:
                print_message(f"{self.activity} of {target.comm} ({target.pid}); Ctrl-C ends it")

        for note in source.notes:
            recording_options.noting(writer)(note)
            report.note(note)
        ended = follow(target.pid, time_ns, lambda: take_all(self.take(source)), begin)
        if not report.has_enough:
            take_all(self.rest(source))
        return "time" if report.has_enough else ended


def monitor(command: str) -> Monitor[Any, Any, Any]:
    """Import and return the monitor of that command."""
    return cast(Monitor[Any, Any, Any], command_module(command).MONITOR)


def replay(recording: "RecordingReader", report: Report[Any]) -> "InputError | None":
    """Report what was recorded, and sum up; return why it is not all, None if it is.

    What was printed when it was recorded is printed again.
    """
    from kernel_delay.recording.reader import IntactRecords
    from kernel_delay.recording.records import Note, record_type

    kind = record_type(recording.header.command)
    reading = IntactRecords(recording)
    report.begin()
    for record in reading:
        if isinstance(record, Note):
            print_message(record.text)
            report.note(record.text)
        elif isinstance(record, kind) and not report.has_enough:
            report.take(record)
            report.flush()
    if reading.damage is not None:
        report.note(str(reading.damage))
    report.finish(recording.trailer.lost if recording.trailer else {})
    return reading.damage


def batches(items: Iterator[_Item], size: int) -> Iterator[tuple[_Item, ...]]:
    """Yield the items in their order, as many at a time."""
    while batch := tuple(islice(items, size)):
        yield batch
