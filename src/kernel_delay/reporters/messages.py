"""Remarks to the user, beside the report: on stderr, a line each."""

import sys

from kernel_delay.printable import printable


def tell(text: str) -> None:
    """Write a line that says who speaks."""
    print(f"kernel-delay: {printable(text)}", file=sys.stderr)


def tell_exit(pid: int) -> None:
    """Say that process `pid` is gone: why the command ends, or waits for another."""
    tell(f"process {pid} exited")
