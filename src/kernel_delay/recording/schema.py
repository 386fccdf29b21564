"""The JSON Schema of a recording's records; `python -m kernel_delay.recording.schema` prints it.

What it prints is docs/reference/recording.schema.json.
"""

from functools import reduce
from operator import or_
from typing import Any, get_args

from kernel_delay.model import RecordingHeader, RecordingTrailer
from kernel_delay.model.schema import schema_of
from kernel_delay.recording.records import COMMANDS, Content, record_types


def union_of_records() -> Any:
    """Return the type of any record, those of all monitors included."""
    return reduce(or_, (RecordingHeader, *get_args(Content), *record_types(), RecordingTrailer))


def recording_schema() -> str:
    """The JSON Schema (2020-12) of one line of a recording, as indented JSON."""
    commands = {(RecordingHeader, "command"): sorted(COMMANDS)}
    return schema_of(union_of_records(), "kernel-delay recording", commands)


if __name__ == "__main__":
    print(recording_schema(), end="")
