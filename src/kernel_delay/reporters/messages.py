"""Remarks to the user, beside the report: on stderr, a line each."""

import sys

from kernel_delay.printable import printable


def tell(text: str) -> None:
    """Write a line that says who speaks."""
    print(f"kernel-delay: {printable(text)}", file=sys.stderr)
