"""`kernel-delay report`: what was measured, from recordings: on any machine, by any user."""

import argparse
import os
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import layout as layout_options
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.errors import InputError, KernelDelayError, NoInputError, UsageError, naming
from kernel_delay.formatting import printable
from kernel_delay.register import MONITORS
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernel_delay.monitors.monitor import AddArguments
    from kernel_delay.recording.reader import RecordingReader

    Actions = Sequence[argparse.Action]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files, the forms of the report, and what single commands have of these."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a recording; - is standard input. A folder of `watch -o` gets a line for each"
        " record and for each cause",
    )
    parser.add_argument(
        "--header",
        action="store_true",
        help="print where, when and how the recording was made, and the process",
    )
    recording_options.add_redact(parser, "report")
    parser.add_argument(
        "-o",
        "--output",
        dest="recording_file",
        type=output_options.own_file,
        metavar="FILE",
        help="write the recording itself to FILE, and no report: redacted with --redact, as"
        " plain JSON Lines if the name ends in .jsonl",
    )
    # Without a FILE of its own: the recording's would be taken for it, and written over.
    as_json = parser.add_argument(
        "--json",
        dest="json_file",
        action="store_const",
        const=output_options.STDOUT,
        help="print a line of JSON for each sample or event instead of the text",
    )
    of_capture = [as_json, *_add_capture_arguments(parser)]
    layout_options.add_color(parser)
    quiet = output_options.add_quiet(
        parser, "for recordings of Open vSwitch commands: only print the summary"
    )
    parser.set_defaults(options=_Options(parser, of_capture, quiet))


def add_late_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of monitors' recordings: no other recording needs what they import."""
    parser.get_default("options").complete()


def run(args: argparse.Namespace) -> int:
    """Report from each file; EX_DATAERR if one is not whole, after what could be read of it."""
    if len(args.files) == 1 and os.path.isdir(args.files[0]):
        from kernel_delay.commands.report_folder import report_folder

        return report_folder(Path(args.files[0]), args)
    if len(args.files) > 1 and (args.html or args.flamegraph):
        raise UsageError("--html and --flamegraph show one recording: give one FILE")
    if len(args.files) > 1 and args.perfetto is not None:
        raise UsageError("--perfetto makes a trace of one recording: give one FILE")
    written = (args.folded, args.html, args.flamegraph, args.perfetto, getattr(args, "pcap", None))
    output_options.refuse_inputs(args.files, (*written, args.recording_file))
    if args.recording_file is not None:
        if len(args.files) > 1 or args.header or args.json_file or any(written):
            raise UsageError("-o writes a recording, and no report: give one FILE, and -o alone")
        return _copy(args)
    status = os.EX_OK
    with ExitStack() as stack:
        # With several, one that can't be read must not keep the others from being reported.
        outputs = _CaptureOutputs(args, stack)
        for name in args.files:
            try:
                damage = _report_file(name, args, outputs)
            except (InputError, NoInputError) as error:
                if len(args.files) == 1:
                    raise  # No output is left without anything in it.
                damage = error
            if damage is not None:
                print_message(str(damage))
                status = status or damage.exit_code
    return status


def _copy(args: argparse.Namespace) -> int:
    from kernel_delay.recording.copying import copy_recording
    from kernel_delay.recording.reader import open_recording

    (name,) = args.files
    with open_recording(name, redact=args.redact) as recording:
        damage = copy_recording(recording, args.recording_file)
    if damage is None:
        return os.EX_OK
    print_message(str(damage))
    return damage.exit_code


def _add_capture_arguments(parser: argparse.ArgumentParser) -> "Actions":
    group = parser.add_argument_group("recordings of capture")
    form = group.add_mutually_exclusive_group()
    return [
        form.add_argument("--text", action="store_true", help="print the tables (default)"),
        layout_options.add_summary(form),
        layout_options.add_percentiles(form),
        output_options.add_folded(group),
        group.add_argument(
            "--perfetto",
            type=output_options.own_file,
            metavar="FILE",
            help="also write the single calls (-s) and the timeline (--timeline) as a trace for"
            " ui.perfetto.dev",
        ),
        *page_options.add_arguments(parser),
        *layout_options.add_arguments(parser),
    ]


class _Options:
    """The options of a report, by the command whose recordings have them.

    Those of monitors are added when they are needed.
    """

    def __init__(
        self, parser: argparse.ArgumentParser, of_capture: "Actions", quiet: argparse.Action
    ) -> None:
        self._parser = parser
        self._shared = {each.dest: each for each in (*of_capture, quiet)}
        self._quiet = quiet
        self._of: dict[str, Actions] = {"capture": of_capture, "watch": of_capture}

    def complete(self) -> None:
        """Add the options of monitors, unless that was done."""
        if len(self._of) > len(MONITORS):
            return
        from kernel_delay.monitors.monitor import monitor

        for name, own in _add_monitors_arguments(self._parser).items():
            shared = ("json_file", *monitor(name).report_options)
            self._of[name] = [*(self._shared[dest] for dest in shared), *own]

    def check(self, recording: "RecordingReader", args: argparse.Namespace) -> None:
        """Raise UsageError for an option that recordings of this one's command don't have.

        Those of a monitor that were not given get their defaults.
        """
        command = recording.header.command
        if command in MONITORS:
            self.complete()
        own = self._of[command]
        for action in own:
            if not hasattr(args, action.dest):
                setattr(args, action.dest, action.default)
        for action in (self._quiet, *chain(*self._of.values())):
            if action not in own and getattr(args, action.dest, action.default) != action.default:
                self.complete()
                takers = " and ".join(name for name, taken in self._of.items() if action in taken)
                raise UsageError(
                    f"{action.option_strings[-1]} is for recordings of {takers};"
                    f" {recording.name!r} is of {command}"
                )


def _add_monitors_arguments(parser: argparse.ArgumentParser) -> "Mapping[str, Actions]":
    """Add the options of monitors, a group for those that have the same; return each one's."""
    from kernel_delay.monitors.monitor import monitor

    takers: dict[AddArguments, list[str]] = {}
    for name in MONITORS:
        for add in monitor(name).report_arguments:
            takers.setdefault(add, []).append(name)
    actions: dict[str, list[argparse.Action]] = {name: [] for name in MONITORS}
    # Options of one monitor come before those that several share.
    for add, names in sorted(takers.items(), key=lambda item: len(item[1])):
        added = add(parser.add_argument_group(f"recordings of {' and '.join(names)}"))
        for name in names:
            actions[name] += added
    return actions


class _CaptureOutputs:
    """The outputs for Samples, opened with the first that there is."""

    def __init__(self, args: argparse.Namespace, stack: ExitStack) -> None:
        self._args = args
        self._stack = stack
        self._reports: list[output_options.Report] | None = None

    def reports(self, recording: "RecordingReader") -> list[output_options.Report]:
        """What takes a Sample to each of them; `recording` is the first that there are any of."""
        if self._reports is None:
            args = self._args
            several = bool(recording.header.others)
            self._reports = output_options.open_reports(
                args.json_file,
                args.folded,
                self._stack,
                layout_options.layout_of(args, named=len(args.files) > 1 or several),
                summary=args.summary,
            )
            if args.perfetto is not None:
                self._reports.append(
                    output_options.perfetto_report(args.perfetto, recording.header, self._stack)
                )
        return self._reports


def _report_file(
    name: str, args: argparse.Namespace, outputs: _CaptureOutputs
) -> "KernelDelayError | None":
    """Report from one file; return why that is not all, None if it is."""
    from kernel_delay.recording.reader import open_recording

    with open_recording(name, redact=args.redact) as recording:
        args.options.check(recording, args)
        if len(args.files) > 1 and output_options.STDOUT not in (args.json_file, args.folded):
            print(f"==> {printable(recording.name)} <==")
        if args.header:
            return _print_header(recording)
        output_options.stdout().flush()
        if recording.header.command in MONITORS:
            from kernel_delay.monitors.monitor import monitor

            return monitor(recording.header.command).report_recording(recording, args)
        return _report_samples(recording, args, outputs)


def _report_samples(
    recording: "RecordingReader", args: argparse.Namespace, outputs: _CaptureOutputs
) -> "KernelDelayError | None":
    from kernel_delay.model import Sample, SkippedWindow
    from kernel_delay.recording.reader import IntactRecords
    from kernel_delay.recording.records import Note

    reading = IntactRecords(recording)
    pages = page_options.open_pages(args, recording.header)
    note = page_options.noting(pages, print_message)
    reports = [*outputs.reports(recording), *(page.contents.add for page in pages)]
    head = output_options.Head(args, recording.header)
    windows = 0
    for record in reading:
        windows += not isinstance(record, Note)
        match record:
            case Sample():
                head.print()
                for report in reports:
                    report(record)
            case SkippedWindow():
                head.print()
                for page in pages:
                    page.contents.skip()
                output_options.report_skipped(record, args.json_file, args.folded)
            case Note():
                note(record.text)
    if not windows:
        raise reading.damage or NoInputError(
            f"{recording.name!r} has no samples: it ended before the first"
        )
    output_options.finish_reports(reports)
    for page in pages:
        if reading.damage is not None:
            page.contents.note(str(reading.damage))
        page.finish()
    return reading.damage


def _print_header(recording: "RecordingReader") -> "KernelDelayError | None":
    from kernel_delay.recording.reader import IntactRecords
    from kernel_delay.reporters.recording_header import header_lines, trailer_line

    file = output_options.stdout()
    with naming("standard output"):
        file.writelines(header_lines(recording.header))
        reading = IntactRecords(recording)
        for _ in reading:
            pass
        if recording.trailer is not None:
            file.write(trailer_line(recording.trailer))
    return reading.damage
