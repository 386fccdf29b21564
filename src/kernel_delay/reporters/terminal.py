"""Colour for the text report, on a terminal that has it."""

from collections.abc import Callable
from functools import cache
from typing import TextIO

from rich.console import Console
from rich.text import Text

HEADING_STYLE = "bold cyan"


def heading_style(file: TextIO) -> Callable[[str], str]:
    """What turns a heading into one with `file`'s escape sequences for colour.

    `file` is a terminal; NO_COLOR and TERM=dumb are minded. A report has the
    same few headings for every thread, so each is rendered once.
    """
    console = Console(file=file, soft_wrap=True)

    @cache
    def style(heading: str) -> str:
        with console.capture() as capture:
            console.print(Text(heading, HEADING_STYLE), end="")
        return capture.get()

    return style
