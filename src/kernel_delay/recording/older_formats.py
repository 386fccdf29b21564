"""Records of older versions of the format, with the names that the current version has."""

from kernel_delay.model import RecordingFormat

_RENAMED_SINCE_1 = (
    (b'"record":"more"', b'"record":"continuation"'),
    (b'"to_come":', b'"remaining":'),
    (b'"surroundings":', b'"system_state":'),
    (b'"doing":', b'"activity":'),
    (b'"untold":', b'"suppressed":'),
    (b'"schema":"kernel-delay/2"', b'"schema":"kernel-delay/3"'),
)


def renamed(line: bytes, written_as: RecordingFormat) -> bytes:
    """Return a record with the names of the current format.

    JSON escapes quotes within a string, so what is replaced can only be a field.

    Args:
        line: The record as JSON, without spaces between its parts.
        written_as: The format of the recording.
    """
    if written_as == "kernel-delay-recording/1":
        for old, new in _RENAMED_SINCE_1:
            line = line.replace(old, new)
    return line
