"""The option that has what is measured written to a recording."""

import argparse
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.errors import UsageError
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernel_delay.host.target import ProcessTarget
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.model import MeasuringCommand, RecordingHeader
    from kernel_delay.recording.writer import RecordingWriter


def add_arguments(parser: argparse.ArgumentParser, *other_names: str) -> None:
    """Add the option; `other_names` are those that it has had in this command."""
    parser.add_argument(
        "-o",
        "--output",
        *other_names,
        dest="recording_file",
        type=Path,
        metavar="FILE",
        help="write a recording to FILE too, for `kernel-delay report`: zstd, or plain JSON Lines"
        " if it is called .jsonl",
    )


def header_of(
    command: "MeasuringCommand", target: "ProcessTarget", *others: "ProcessTarget"
) -> "RecordingHeader":
    """What a recording of this command, as it was called, says of itself."""
    from kernel_delay.recording.header import new_header

    return new_header(command, sys.argv[1:], target, *others)


def open_writer(
    args: argparse.Namespace, header: "Callable[[], RecordingHeader]", stack: ExitStack
) -> "RecordingWriter | None":
    """Begin the recording that is asked for, which `stack` closes; None if none is.

    Raises OutputError where it can't be written, before anything is measured for it, and
    UsageError for the standard output, which is the report's.
    """
    if args.recording_file is None:
        return None
    if os.fspath(args.recording_file) == "-":
        raise UsageError("a recording needs a FILE of its own: the report is on standard output")
    from kernel_delay.recording.writer import RecordingWriter

    return stack.enter_context(RecordingWriter(args.recording_file, header()))


def finish(writer: "RecordingWriter | None", ended: "Ended", lost: "Mapping[str, int]") -> None:
    """Say in the recording, if there is one, that it is whole, and what was lost."""
    if writer is not None:
        writer.finish("done" if ended == "time" else ended, lost)


def noting(writer: "RecordingWriter | None") -> "Callable[[str], None]":
    """What tells the user something, and the readers of the recording too."""
    if writer is None:
        return tell

    def tell_both(text: str) -> None:
        tell(text)
        writer.note(text)

    return tell_both
