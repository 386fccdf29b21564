"""What commands that follow ovs-vswitchd's own events have in common: the way to their end."""

import os
from typing import TYPE_CHECKING, Protocol

from kernel_delay.commands.options import recording as recording_options
from kernel_delay.reporters.messages import print_exit, print_message

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from kernel_delay.errors import InputError
    from kernel_delay.host.target import ProcessTarget
    from kernel_delay.loader.waiting import Ended
    from kernel_delay.recording.reader import RecordingReader
    from kernel_delay.recording.records import Read
    from kernel_delay.recording.writer import RecordingWriter


class Source(Protocol):
    """Where the events come from, while its programs are attached."""

    @property
    def notes(self) -> "Sequence[str]":
        """A line each on what can't be seen here, and why."""

    def missed(self) -> "Mapping[str, int]":
        """How many were lost, by what they were."""


class Report(Protocol):
    """What is reported of the events."""

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read, that was printed already."""

    def finish(self, missed: "Mapping[str, int]") -> None:
        """Sum up."""


def monitor(
    subject: str,
    target: "ProcessTarget",
    source: Source,
    report: Report,
    recording: "RecordingWriter | None",
    follow: "Callable[[], Ended]",
) -> "Ended":
    """Have what `source` sees of `target` followed, and sum up; returns what ended it."""
    for note in source.notes:
        recording_options.noting(recording)(note)
        report.note(note)
    print_message(f"tracing the {subject} of {target.comm} ({target.pid}); Ctrl-C ends it")
    ended = follow()
    missed = source.missed()
    recording_options.finish(recording, ended, missed)
    report.finish(missed)
    return ended


def keep_rights(args: "argparse.Namespace") -> None:
    """Give up what was needed to attach alone."""
    from kernel_delay.commands.options import outputs
    from kernel_delay.host import privileges

    privileges.keep_only((), outputs.given(args))


def sum_up(summary: str, missed: "Sequence[str]", *, as_text: bool) -> None:
    """Print the summary with what was not seen; that is printed where stdout has no text, too."""
    if as_text:
        print("\n".join([summary, *missed]))
        return
    for line in missed:
        print_message(line)


def print_end(ended: "Ended", target: "ProcessTarget") -> int:
    """Say that the process exited, if it did; returns the command's exit code."""
    if ended == "exit":
        print_exit(target.pid)
    return os.EX_OK


def replay(
    recording: "RecordingReader", report: Report, take: "Callable[[Read], None]"
) -> "InputError | None":
    """Have `take` report what was recorded, and sum up; return why it is not all, None if it is.

    What was printed when it was recorded is printed again.
    """
    from kernel_delay.recording.reader import IntactRecords
    from kernel_delay.recording.records import Note

    reading = IntactRecords(recording)
    for record in reading:
        if isinstance(record, Note):
            print_message(record.text)
            report.note(record.text)
        else:
            take(record)
    if reading.damage is not None:
        report.note(str(reading.damage))
    report.finish(recording.trailer.lost if recording.trailer else {})
    return reading.damage
