"""How a report is laid out for the file that it goes to: colour and width of a terminal."""

import os
from functools import lru_cache
from typing import TextIO

from msgspec import structs
from rich.console import Console
from rich.text import Text

from kernel_delay.reporters.layout import Color, Layout, Role

STYLES: dict[Role, str] = {
    "heading": "bold cyan",
    "verdict": "bold red",
    "acquittal": "bold green",
    "remark": "yellow",
    "warning": "bold yellow",
}


def has_columns(file: TextIO, columns: int) -> bool:
    """Whether lines so long stay lines: anywhere but on a terminal that is narrower."""
    return not file.isatty() or Console(file=file).width >= columns


def has_room_for_bars(file: TextIO, columns: int) -> bool:
    """Whether `file` is a terminal at least that wide that has characters for bars."""
    if not file.isatty() or not file.encoding.lower().startswith("utf"):
        return False
    return Console(file=file).width >= columns


def shown_on(layout: Layout, file: TextIO) -> Layout:
    """The layout as `file` can show it: a terminal has a width, as COLUMNS or itself says."""
    if file.isatty():
        layout = structs.replace(layout, width=Console(file=file).width)
    if not has_color(layout.color, file):
        return layout
    # Of its own judgement rich needs none: all that is used are the eight colours of any terminal.
    console = Console(
        file=file, color_system="standard", force_terminal=True, no_color=False, soft_wrap=True
    )

    # A report has the same few headings for every thread: each is rendered once.
    @lru_cache(maxsize=1000)
    def style(text: str, role: Role) -> str:
        with console.capture() as capture:
            console.print(Text(text, STYLES[role]), end="", highlight=False)
        return capture.get()

    return structs.replace(layout, style=style)


def has_color(color: Color, file: TextIO) -> bool:
    """Whether what goes to `file` is to have colour.

    An option that says so counts most; then NO_COLOR (no-color.org) and FORCE_COLOR
    (force-color.org), where they are not empty; then whether it is a terminal that has colour.
    """
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return file.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
