"""What is reported, made a text, JSON or a picture; and messages, a line each on stderr."""

import sys

from kernel_delay.formatting import printable


def print_message(text: str) -> None:
    """Write a line that says who speaks.

    Where stderr can't be written, as on a full disk, that ends nothing; a pipe that nobody reads
    any more does.
    """
    if sys.stderr is None:  # closed from the start; print() would take stdout in its place
        return
    try:
        print(f"kernel-delay: {printable(text)}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError:
        pass


def print_exit(pid: int) -> None:
    """Say that process `pid` is gone: why the command ends, or waits for another."""
    print_message(f"process {pid} exited")
