"""Tables as lines: in kernel_delay.py's columns, or in as few as a terminal has."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from kernel_delay.reporters.layout import HEADING_UNITS, TIME_TEXTS, Times

Row = tuple[str | int, ...]
"""The cells of a row; an int is a time in nanoseconds, in a column whose heading ends so."""


class Column(NamedTuple):
    """A column of kernel_delay.py's form: its heading, how wide it is, and the gap before it.

    `left`: its cells begin at its left edge. The heading of a table's first column does so always.
    """

    heading: str
    width: int = 16
    gap: int = 2
    left: bool = False


class Table(NamedTuple):
    """A section of a thread's report; a row may have fewer cells than there are columns.

    `always`: it stands with its headings alone where it has no rows; another
    table without rows is left out. `partial`: it lacks rows that its total counts.
    """

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    always: bool = False
    partial: bool = False


class _Text(NamedTuple):
    """A table whose times are text."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[tuple[str, ...]]
    partial: bool


def _text(table: Table, times: Times) -> _Text:
    """The table with its times as they are to be shown."""
    shown = TIME_TEXTS[times]
    rows = [
        tuple([cell if isinstance(cell, str) else shown(cell) for cell in row])
        for row in table.rows
    ]
    columns = table.columns
    if times != "ns":
        columns = tuple(
            column._replace(heading=column.heading.removesuffix(" ns") + HEADING_UNITS[times])
            if column.heading.endswith(" ns")
            else column
            for column in columns
        )
    return _Text(table.title, columns, rows, table.partial)


GAP = "  "
UNLABELLED = ("NAME", "STATE")


Part = list[str]
"""A line of headings, and the rows below it."""


def first_rows(table: Table, most: int) -> Table:
    """The table with its first rows, and how many there are; its total stands for all of them."""
    totals = [row for row in table.rows[-1:] if str(row[0]).startswith("TOTAL")]
    rows = table.rows[: len(table.rows) - len(totals)]
    if len(rows) <= most:
        return table
    title = f"{table.title} {most} of {len(rows)}"
    return table._replace(title=title, rows=[*rows[:most], *totals], partial=True)


FORMS_REMEMBERED = 64
"""More than there are tables."""


class _Form(NamedTuple):
    """What the lines of all tables of the same columns are made by.

    `headings` is their first line, and a row of N cells is formatted by `cells[N]`. Where all cells
    of columns of times are times, that is `times[N]`.
    """

    headings: str
    cells: tuple[str, ...]
    times: tuple[str, ...]


@lru_cache(FORMS_REMEMBERED)
def _form(columns: tuple[Column, ...]) -> _Form:
    first, *others = columns
    headings = [" " * first.gap + f"{first.heading:{first.width}}"]
    headings += [
        " " * column.gap + _aligned(column.heading, column, column.width) for column in others
    ]
    cells = [
        f"{' ' * column.gap}%{'-' if column.left else ''}{column.width}s" for column in columns
    ]
    times = [
        f"{' ' * column.gap}{{:{column.width},}}"
        if column.heading.endswith(" ns")
        else f"{' ' * column.gap}{{:{'<' if column.left else '>'}{column.width}}}"
        for column in columns
    ]
    counts = range(len(cells) + 1)
    return _Form(
        "".join(headings).rstrip(),
        tuple(["".join(cells[:count]) for count in counts]),
        tuple(["".join(times[:count]) for count in counts]),
    )


def as_upstream(table: Table, times: Times = "ns") -> Part:
    """The table, each column as wide as kernel_delay.py has it."""
    text = table if times == "ns" else _text(table, times)
    form = _form(text.columns)
    lines = [form.headings]
    for row in text.rows:
        # A report has many cells: no call for each.
        try:
            line = form.times[len(row)].format(*row)
        except ValueError:
            # A cell of a column of times is empty, or all are texts.
            cells = tuple([f"{cell:,}" if cell.__class__ is int else cell for cell in row])
            line = form.cells[len(row)] % cells
        lines.append(line.rstrip())
    return lines


def fitted(table: Table, width: int, times: Times = "ns") -> list[Part]:
    """The same, title and all, each column as wide as what is in it; none that has but zeros.

    A total of one row is left out. Columns for which `width` has no room are further parts,
    behind the first one again.
    """
    text = _text(table, times)
    if len(text.rows) == 2 and text.rows[1][0].startswith("TOTAL") and not text.partial:
        text = text._replace(rows=text.rows[:1])
    places = range(1, len(text.columns))
    shown = [0, *(place for place in places if set(_cells(text, place)) != {"0"})]
    titled = _with_title(text)
    if _width(titled, shown) <= width:
        return [_part(titled, shown)]
    parts = [_part(text, [0, *part]) for part in _parts(text, shown, width)]
    return [[text.title], *parts]


def _with_title(table: _Text) -> _Text:
    """The table, its title in the heading of its first column, of which some say nothing more."""
    first = table.columns[0]
    heading = table.title if first.heading in UNLABELLED else f"{table.title} {first.heading}"
    return table._replace(columns=(first._replace(heading=heading), *table.columns[1:]))


def _part(table: _Text, shown: Sequence[int]) -> Part:
    columns = [(table.columns[i], _needed(table, i)) for i in shown]
    (first, first_width), *others = columns
    headings = [f"{first.heading:{first_width}}"]
    headings += [_aligned(column.heading, column, width) for column, width in others]
    lines = [GAP.join(headings)]
    for row in table.rows:
        cells = [row[i] if i < len(row) else "" for i in shown]
        aligned = zip(cells, columns, strict=True)
        lines.append(GAP.join(_aligned(cell, *column) for cell, column in aligned))
    return [line.rstrip() for line in lines]


def _width(table: _Text, shown: Sequence[int]) -> int:
    return sum(_needed(table, i) for i in shown) + len(GAP) * (len(shown) - 1)


def _parts(table: _Text, shown: Sequence[int], width: int) -> list[list[int]]:
    """The columns after the first one, as many together as there is room for: one at least."""
    parts: list[list[int]] = [[]]
    for index in shown[1:]:
        if parts[-1] and _width(table, [0, *parts[-1], index]) > width:
            parts.append([])
        parts[-1].append(index)
    return parts


def _needed(table: _Text, index: int) -> int:
    return max(len(text) for text in (table.columns[index].heading, *_cells(table, index)))


def _cells(table: _Text, index: int) -> list[str]:
    return [row[index] for row in table.rows if index < len(row)]


def _aligned(text: str, column: Column, width: int) -> str:
    return f"{text:{width}}" if column.left else f"{text:>{width}}"
