"""Tables of a page whose cells are texts: see static/rows.js."""

import heapq
from collections.abc import Callable, Sequence

from msgspec import Struct

MOST_ROWS = 500

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
