"""A thread on a terminal: its tables, with as many rows of each as there is room for."""

import re
from collections.abc import Iterator
from itertools import accumulate, zip_longest

from kernel_delay.model import Thread
from kernel_delay.reporters.accounting_tables import accounting_tables, percentile_table
from kernel_delay.reporters.grid import Table, first_rows, fitted
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.tables import name_of, short_tables, tables

INDENT = " " * 2

PARTIAL = ": first rows (--all-rows shows all)"

MOST_ROWS = (8, 5, 3, 2, 1)
"""Rows of each table, where all of them don't fit: as many as do. Where time went stays whole."""


WIDE = 160
"""From so many columns on two tables stand side by side."""

BETWEEN = " " * 3

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def block(thread: Thread, layout: Layout, width: int, lines: int) -> list[str]:
    """The tables below the thread's name, those alone that have rows, with no line to spare.

    `lines` are those that there is room for. The layout may say that there is for all.
    """
    name = layout.heading(f"{name_of(thread)} ({thread.tid})")
    beside = width >= WIDE
    column = (width - len(BETWEEN)) // 2 if beside else width
    whole = [_lines(table, layout, column) for table in _tables(thread, layout, None)]
    if layout.all_rows or 1 + _height(whole, beside=beside) <= lines:
        return [name, *_joined(whole, column, beside=beside)]
    shown = _first_rows(thread, layout, column, lines - 1, beside=beside)
    return [name + PARTIAL, *_joined(shown, column, beside=beside)]


def _first_rows(
    thread: Thread, layout: Layout, width: int, lines: int, *, beside: bool
) -> list[list[str]]:
    """As many rows of each table as fit; spare lines go to the last tables, which say why."""
    shown: list[list[str]] = []
    for most in reversed(MOST_ROWS):
        longer = [_lines(table, layout, width) for table in _tables(thread, layout, most)]
        shown = shown or longer
        for place in reversed(range(len(shown))):
            longest = [*shown[:place], longer[place], *shown[place + 1 :]]
            if _height(longest, beside=beside) <= lines:
                shown = longest
    return shown


def _height(tables: list[list[str]], *, beside: bool) -> int:
    """How many lines they take."""
    return max(sum(map(len, column)) for column in _columns(tables, beside=beside))


def _columns(tables: list[list[str]], *, beside: bool) -> tuple[list[list[str]], ...]:
    """One column of tables, or two in their order, the longer one as short as can be."""
    if not beside:
        return (tables,)
    heights = list(accumulate(map(len, tables), initial=0))
    split = min(range(len(heights)), key=lambda at: max(heights[at], heights[-1] - heights[at]))
    return tables[:split], tables[split:]


def _joined(tables: list[list[str]], width: int, *, beside: bool) -> list[str]:
    columns = [
        [line for table in each for line in table] for each in _columns(tables, beside=beside)
    ]
    if not beside:
        return columns[0]
    return [
        f"{left}{' ' * (width - len(_STYLE.sub('', left)))}{BETWEEN}{right}".rstrip()
        for left, right in zip_longest(*columns, fillvalue="")
    ]


def _lines(table: Table, layout: Layout, width: int) -> list[str]:
    if not table.rows:
        return []
    return [
        INDENT + line
        for headings, *rows in fitted(table, width - len(INDENT), layout.times)
        for line in (layout.heading(headings), *rows)
    ]


def _tables(thread: Thread, layout: Layout, most: int | None) -> Iterator[Table]:
    if most is None:
        yield from tables(thread)
    else:
        yield from short_tables(thread, most)
    yield from accounting_tables(thread, most)
    if thread.pmd is not None:
        # Most processes have none.
        from kernel_delay.reporters.pmd_tables import pmd_tables

        yield from pmd_tables(thread.pmd, most)
    if layout.percentiles:
        table = percentile_table(thread)
        yield table if most is None else first_rows(table, most)
