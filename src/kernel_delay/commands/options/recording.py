"""The option that has what is measured written to a recording."""

import argparse
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kernel_delay.commands.options.outputs import given, own_file
from kernel_delay.errors import UsageError
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

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
        type=own_file,
        metavar="FILE",
        help="write a recording to FILE, for `kernel-delay report`: zstd, or plain JSON"
        " Lines if the name ends in .jsonl",
    )
    add_redact(parser, "write the recording (-o)")


def add_redact(parser: argparse._ActionsContainer, what: str) -> argparse.Action:
    """Add the option that leaves out what may be secret; `what` is done so."""
    return parser.add_argument(
        "--redact",
        action="store_true",
        help=f"{what} without command lines, folders, packets, addresses, and names of hosts,"
        " cgroups and pods",
    )


def check_redact(args: argparse.Namespace, output: "Path | None") -> None:
    """Raise UsageError where nothing is written that could be redacted, or something that is not.

    A page is sent to others as a recording is.
    """
    if not args.redact:
        return
    for other in given(args):
        if other != output:
            raise UsageError(
                f"--redact is for the recording (-o) alone: leave {other} out, and have"
                " `kernel-delay report` write it from the recording"
            )
    if output is None:
        raise UsageError("--redact is for a recording: add -o")


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

    Raises OutputError where it can't be written, before anything is measured for it.
    """
    check_redact(args, args.recording_file)
    if args.recording_file is None:
        return None
    from kernel_delay.recording.writer import RecordingWriter

    if args.recording_file.suffix == ".csv":
        print_message(
            f"{args.recording_file} will be a recording for `kernel-delay report`, not CSV"
        )
    return stack.enter_context(RecordingWriter(args.recording_file, header(), redact=args.redact))


def finish(writer: "RecordingWriter | None", ended: "Ended", lost: "Mapping[str, int]") -> None:
    """Say in the recording, if there is one, that it is whole, and what was lost."""
    if writer is not None:
        writer.finish("done" if ended == "time" else ended, lost)


def noting(writer: "RecordingWriter | None") -> "Callable[[str], None]":
    """What prints a message for the user, and for the readers of the recording too."""
    if writer is None:
        return print_message

    def print_both(text: str) -> None:
        print_message(text)
        writer.note(text)

    return print_both
