"""The text of /proc, and its lines.

The names in it are chosen by others. The kernel writes a newline in them as `\\n`, and other
characters that Python takes for the end of a line, such as a carriage return, as they are
(fs/proc/array.c:proc_task_name(), fs/proc_namespace.c:mangle(), 5.14 to 6.18).
"""

import os
from pathlib import Path

DELETED = " (deleted)"
"""The end of what /proc shows of a file that has no name any more: proc_pid_exe(5)."""

_CHUNK_BYTES = 1 << 16


def read_bytes(path: Path | str, most_bytes: int = -1) -> bytes:
    """Return what is in a file, so much of it at most; OSError if it can't be read.

    Hundreds of processes have such files, and Python's own take three times as long to open.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while left := _CHUNK_BYTES if most_bytes < 0 else most_bytes - len(found):
            part = os.read(fd, left)
            if not part:
                break
            found += part
        return found
    finally:
        os.close(fd)


def read_text(path: Path | str, most_bytes: int = -1) -> str:
    """Return the text of a file, so much of it at most; OSError if it can't be read.

    A byte that is not UTF-8 becomes `\\xNN`.
    """
    return read_bytes(path, most_bytes).decode(errors="backslashreplace")


def lines_of(text: str) -> list[str]:
    """Return the lines of such a text: a newline ends one, and nothing else does."""
    return text.removesuffix("\n").split("\n") if text else []


def read_lines(path: Path | str, most_bytes: int = -1) -> list[str]:
    """Return the lines of a file, so much of it at most; OSError if it can't be read."""
    return lines_of(read_text(path, most_bytes))


def read_number(path: Path | str, key: str, most_bytes: int = -1) -> int | None:
    """Return the number of the line `key: number` of a file; None if it has no such line.

    Raises:
        OSError: it can't be read.
        ValueError: what the line has is no number.
    """
    for line in read_lines(path, most_bytes):
        name, _, value = line.partition(":")
        if name == key:
            return int(value)
    return None
