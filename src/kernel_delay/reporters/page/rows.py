"""Tables of a page whose cells are texts: see static/rows.js."""

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.formatting import NS_PER_MS, NS_PER_US

if TYPE_CHECKING:
    from kernel_delay.reporters.grid import Table

MOST_ROWS = 500

MOST_TEXT = 1000
"""Characters of a match, or of actions: one can be of 64 KiB in a message, and more as text."""


Row = tuple[str, ...]


class PageTable(Struct, frozen=True):
    """A table, as the text has it; `texts` are the places of columns that are no numbers.

    `left_out` are rows for which there was no room.
    """

    id: str
    title: str
    headings: tuple[str, ...]
    texts: tuple[int, ...]
    rows: tuple[Row, ...]
    left_out: int


def table_of(name: str, title: str, table: "Table", all_rows: int) -> PageTable:
    """The rows of a text's table, of which there are so many in all."""
    return PageTable(
        id=name,
        title=title,
        headings=tuple(column.heading for column in table.columns),
        texts=tuple(place for place, column in enumerate(table.columns) if column.left),
        rows=tuple(tuple(map(str, row)) for row in table.rows),
        left_out=all_rows - len(table.rows),
    )


class Largest:
    """The rows of what was largest, the largest first; of equals the first that came."""

    def __init__(self) -> None:
        """Start before the first."""
        self._heap: list[tuple[int, int, Row]] = []
        self._count = 0

    def add(self, value: int, row: Callable[[], Row]) -> None:
        """Count one; its row is made if it is among them so far."""
        self._count += 1
        if len(self._heap) < MOST_ROWS:
            heapq.heappush(self._heap, (value, -self._count, row()))
        elif value > self._heap[0][0]:
            heapq.heapreplace(self._heap, (value, -self._count, row()))

    def table(
        self, name: str, title: str, headings: Sequence[str], texts: Sequence[int]
    ) -> PageTable:
        """The table of them."""
        rows = tuple(row for *_, row in sorted(self._heap, reverse=True))
        left_out = self._count - len(rows)
        return PageTable(name, title, tuple(headings), tuple(texts), rows, left_out)


def seconds_text(time_ns: int) -> str:
    """A time of CLOCK_MONOTONIC in seconds, to the microsecond."""
    seconds, rest_ns = divmod(time_ns, 1_000_000_000)
    return f"{seconds}.{rest_ns // NS_PER_US:06}"


def ms_text(time_ns: int | None) -> str:
    """A length in ms; empty where it is not known."""
    return "" if time_ns is None else f"{time_ns / NS_PER_MS:,.1f}"


def us_text(time_ns: int | None) -> str:
    """A length in us; empty where it is not known."""
    return "" if time_ns is None else f"{time_ns / NS_PER_US:,.1f}"


def count_text(count: int | None) -> str:
    """A count; empty where it is not known."""
    return "" if count is None else f"{count:,}"


def short_text(text: str) -> str:
    """The text, cut after MOST_TEXT characters."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
