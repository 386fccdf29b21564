"""The JSON Schema of a recording's records; `python -m kernel_delay.recording.schema` prints it.

What it prints is docs/reference/recording.schema.json.
"""

from kernel_delay.model.schema import schema_of
from kernel_delay.recording.records import Record


def recording_schema() -> str:
    """The JSON Schema (2020-12) of one line of a recording, as indented JSON."""
    return schema_of(Record, "kernel-delay recording")


if __name__ == "__main__":
    print(recording_schema(), end="")
