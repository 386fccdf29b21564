"""A recording written anew: redacted, or in the other form."""

from pathlib import Path

from msgspec.structs import replace

from kernel_delay.errors import InputError
from kernel_delay.model import Sample, SkippedWindow
from kernel_delay.recording.reader import FORMATS, IntactRecords, RecordingReader
from kernel_delay.recording.records import Events, Note
from kernel_delay.recording.writer import RecordingWriter


def copy_recording(recording: RecordingReader, path: Path) -> InputError | None:
    """Write what is read of a recording to `path`; return why that is not all, None if it is.

    The copy of one that is not whole is not whole either. Raises OutputError.
    """
    reading = IntactRecords(recording)
    with RecordingWriter(path, replace(recording.header, format=FORMATS[0])) as writer:
        for record in reading:
            match record:
                case Sample():
                    writer.sample(record)
                case SkippedWindow():
                    writer.skipped(record)
                case Note():
                    writer.note(record.text)
                case Events():
                    writer.events(record)
        if recording.trailer is not None:
            writer.finish(recording.trailer.ended, recording.trailer.lost)
    return reading.damage
