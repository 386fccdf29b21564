"""`kernel-delay export`: recordings as Parquet files, for what reads those of many nodes."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.errors import InputError, NoInputError
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from kernel_delay.errors import KernelDelayError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The recordings, and where to."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="RECORDING",
        help="a recording of capture or watch; - is standard input",
    )
    parser.add_argument(
        "--parquet",
        dest="folder",
        type=arguments.path,
        required=True,
        metavar="DIR",
        help="write Parquet files below DIR, by table, day and node. An older copy of the"
        " same recording is replaced, unless that one is longer",
    )
    recording_options.add_redact(parser, "export")


def run(args: argparse.Namespace) -> int:
    """Export each recording; EX_DATAERR if one is not whole, after what could be read of it."""
    status = os.EX_OK
    for name in args.files:
        try:
            damage = _export(name, args.folder, redact=args.redact)
        except (InputError, NoInputError) as error:
            damage = error
        if damage is not None:
            print_message(str(damage))
            status = status or damage.exit_code
    return status


def _export(name: str, folder: Path, *, redact: bool) -> "KernelDelayError | None":
    """Export one recording; return why that is not all of it, None if it is."""
    from kernel_delay.fleet.export import ParquetFiles
    from kernel_delay.model import Sample
    from kernel_delay.recording.reader import IntactRecords, open_recording

    with open_recording(name, redact=redact) as recording:
        command = recording.header.command
        if command not in ("capture", "watch"):
            raise InputError(
                f"{recording.name!r} is a recording of {command}: only those of capture and watch"
                " can be exported"
            )
        reading = IntactRecords(recording)
        with _naming_overflow(recording.name), ParquetFiles(folder, recording.header) as files:
            for record in reading:
                if isinstance(record, Sample):
                    files.add(record)
            samples = files.finish()
        if files.kept_longer:
            print_message(
                f"{recording.name!r} is shorter than the copy that was exported before: that stays"
            )
        elif not samples and reading.damage is None:
            print_message(f"{recording.name!r} has no samples: there is nothing of it to export")
        return reading.damage


@contextmanager
def _naming_overflow(name: str) -> Iterator[None]:
    """Raise InputError for a number that is in no column's type, which has 64 bits."""
    try:
        yield
    except OverflowError:
        raise InputError(f"{name!r} has a number that is too large for a table") from None
