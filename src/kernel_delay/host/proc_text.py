"""The text of /proc, and its lines.

The names in it are chosen by others. The kernel writes a newline in them as `\\n`, and other
characters that Python takes for the end of a line, such as a carriage return, as they are
(fs/proc/array.c:proc_task_name(), fs/proc_namespace.c:mangle(), 5.14 to 6.18).
"""

from pathlib import Path


def read_text(path: Path, most_bytes: int = -1) -> str:
    """Return the text of a file, so much of it at most; OSError if it can't be read.

    A byte that is not UTF-8 becomes `\\xNN`.
    """
    with path.open("rb") as file:
        return file.read(most_bytes).decode(errors="backslashreplace")


def lines_of(text: str) -> list[str]:
    """Return the lines of such a text: a newline ends one, and nothing else does."""
    return text.removesuffix("\n").split("\n") if text else []


def read_lines(path: Path, most_bytes: int = -1) -> list[str]:
    """Return the lines of a file, so much of it at most; OSError if it can't be read."""
    return lines_of(read_text(path, most_bytes))
