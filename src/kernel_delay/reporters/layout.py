"""How a report is laid out as text, and what lays out any of its lines."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from kernel_delay.formatting import brief

Role = Literal["heading", "verdict", "acquittal", "remark", "warning"]
"""What a line is to its reader, and so its colour."""

Order = Literal["lost", "name"]
"""Which thread comes first: the one that lost most, or the first by name."""

Color = Literal["auto", "always", "never"]
"""Whether there is colour: `auto` leaves it to the terminal and the environment."""

Units = Literal["auto", "ns", "ms"]
"""How times are shown: `auto` leaves it to where they go."""

Times = Literal["ns", "ms", "brief"]
"""How times are shown there: in one unit, or each with three digits and a unit of its own."""

TIME_TEXTS: Mapping[Times, Callable[[int], str]] = MappingProxyType(
    {
        "ns": "{:,}".format,
        "ms": lambda ns: f"{ns / 1e6:,.3f}" if ns else "0",
        "brief": lambda ns: brief(ns) if ns else "0",
    }
)
"""What makes a cell of a time, by how it is shown."""

HEADING_UNITS: Mapping[Times, str] = MappingProxyType({"ns": " ns", "ms": " ms", "brief": ""})
"""What stands behind the heading of a column of times."""

SCREEN = 50
"""Lines of a terminal. The thread that lost most is whole on the first of them."""

_COMMENT = "# "
_CONTINUED = "#   "
_HANGING = "#     "
# A number and its unit stay in one line.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|(?:ns|µs|ms|s)\b)")
_NO_BREAK = "\u00a0"

_LEAST = 20
"""In fewer columns nothing is readable: lines are that long, whatever the terminal."""


def unstyled(text: str, role: Role) -> str:
    """Colour for no one: `text` as it is."""
    return text


class Layout(Struct, frozen=True):
    """What the reader asked for, and has.

    `width` are the columns of the terminal, None for a pipe or a file: there all is in
    kernel_delay.py's form, and each line one line. `style` may add colour, if `color` says so.
    `units` are those of the times in tables.
    `all_rows`: a thread has all of its tables, though they fit no screen. `top` is how many stacks
    of system calls to show, and `events` whether to list the calls one by one too. `named`: it is
    said which process a Sample is of, also where it is the only one in its window, as others may
    have been in others.
    """

    width: int | None = None
    style: Callable[[str, Role], str] = unstyled
    color: Color = "auto"
    units: Units = "auto"
    order: Order = "lost"
    all_threads: bool = False
    all_rows: bool = False
    percentiles: bool = False
    top: int = 10
    events: bool = False
    named: bool = False

    @property
    def times(self) -> Times:
        """How times are shown: for people on a terminal, to the nanosecond elsewhere."""
        if self.units != "auto":
            return self.units
        return "ns" if self.width is None else "brief"

    def time(self, ns: int) -> str:
        """A time in a table."""
        return TIME_TEXTS[self.times](ns)

    def headings(self, columns: str) -> str:
        """A line of headings, above columns of times whose right edges are aligned."""
        if self.times == "ns":
            return self.heading(columns)
        return self.heading(re.sub(r"(\w+) ns\b", self._in_units, columns))

    def _in_units(self, heading: re.Match[str]) -> str:
        return f"{heading[1]}{HEADING_UNITS[self.times]}".rjust(len(heading[0]))

    def heading(self, text: str) -> str:
        """A heading."""
        return self.style(text, "heading")

    def comment(self, text: str, role: Role | None = None) -> Iterator[str]:
        """`# text`, of as many lines as the terminal's width makes it."""
        for line in self.wrapped(text, _COMMENT, _CONTINUED):
            yield line if role is None else self.style(line, role)

    def item(self, first: str, others: Sequence[str], role: Role) -> Iterator[str]:
        """`# first` and the sentences below it, each in lines of its own; for a terminal."""
        lines = self.wrapped(first, _COMMENT, _HANGING)
        for sentence in others:
            lines += self.wrapped(sentence, _CONTINUED, _HANGING)
        yield from (self.style(line, role) for line in lines)

    def wrapped(self, text: str, first: str = "", further: str = "") -> list[str]:
        """`text` in lines that fit the terminal, behind `first` and `further`; in a pipe one."""
        if self.width is None or len(first) + len(text) <= self.width:
            return [first + text]
        lines = textwrap.wrap(
            _BEFORE_UNIT.sub(_NO_BREAK, text),
            max(self.width, _LEAST),
            initial_indent=first,
            subsequent_indent=further,
            break_on_hyphens=False,
        )
        return [line.replace(_NO_BREAK, " ") for line in lines]


IN_A_PIPE = Layout()
"""All as if nothing was asked for, for a pipe or a file."""
