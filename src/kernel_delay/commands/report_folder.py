"""A folder that `kernel-delay watch -o` wrote: a line for each record, and what caused how many."""

import argparse
import os
from pathlib import Path

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.errors import KernelDelayError, UsageError
from kernel_delay.model import Sample
from kernel_delay.recording.directory import no_recordings, recordings_in
from kernel_delay.recording.reader import IntactRecords, open_recording
from kernel_delay.reporters import print_message
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.rounds import Causes, line


def report_folder(folder: Path, args: argparse.Namespace) -> int:
    """Print a line for each record as its watch did; EX_DATAERR if one is not whole.

    Raises:
        UsageError: for a form of the report that one record alone has.
        NoInputError: where there are no records.
    """
    forms = (args.json_file, args.folded, args.html, args.flamegraph, args.perfetto)
    if args.header or args.summary or args.recording_file or any(forms):
        raise UsageError(f"{folder} is a folder, reported in lines: give a record in it for that")
    paths = recordings_in(folder)
    if not paths:
        raise no_recordings(str(folder))
    layout = output_options.as_shown(Layout(color=args.color), output_options.stdout())
    status, causes = os.EX_OK, Causes()
    for path in paths:
        try:
            damage = _report(path, causes, layout, redact=args.redact)
        except KernelDelayError as error:
            damage = error
        if damage is not None:
            print_message(str(damage))
            status = status or damage.exit_code
    for text in causes.lines():
        output_options.print_line(text)
    return status


def _report(path: Path, causes: Causes, layout: Layout, *, redact: bool) -> KernelDelayError | None:
    """Report a record; return why that is not all of it."""
    with open_recording(path, redact=redact) as recording:
        reading = IntactRecords(recording)
        for record in reading:
            if isinstance(record, Sample) and record.round is not None:
                for text in layout.wrapped(line(record), further="    "):
                    output_options.print_line(text)
                causes.add(record)
    return reading.damage
