"""How a report is laid out for the file that it goes to: colour and width of a terminal."""

from functools import lru_cache
from typing import TextIO

from msgspec import structs
from rich.console import Console
from rich.text import Text

from kernel_delay.reporters.layout import Layout, Role

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


def on_terminal(layout: Layout, file: TextIO) -> Layout:
    """The layout as `file` can show it, which is a terminal; NO_COLOR and TERM=dumb are minded.

    The terminal is as wide as COLUMNS says, or as it says itself.
    """
    console = Console(file=file, soft_wrap=True, highlight=False)
    layout = structs.replace(layout, width=console.width)
    # With NO_COLOR rich has bold still, and a log that keeps its escapes is what one wants it for.
    if console.no_color or console.color_system is None:
        return layout

    # A report has the same few headings for every thread: each is rendered once.
    @lru_cache(maxsize=1000)
    def style(text: str, role: Role) -> str:
        with console.capture() as capture:
            console.print(Text(text, STYLES[role]), end="")
        return capture.get()

    return structs.replace(layout, style=style)
