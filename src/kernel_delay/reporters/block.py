"""A thread on a terminal: its tables, with as many rows of each as there is room for."""

from collections.abc import Iterator

from kernel_delay.model import Thread
from kernel_delay.reporters.accounting_tables import accounting_tables, percentile_table
from kernel_delay.reporters.grid import Table, first_rows, fitted
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.tables import name_of, short_tables, tables

INDENT = " " * 2

PARTIAL = ": first rows (--all-rows shows all)"

MOST_ROWS = (8, 5, 3, 2, 1)
"""Rows of each table, where all of them don't fit: as many as do. Where time went stays whole."""


def block(thread: Thread, layout: Layout, width: int, lines: int) -> list[str]:
    """The tables below the thread's name, those alone that have rows, with no line to spare.

    `lines` are those that there is room for. The layout may say that there is for all.
    """
    name = layout.heading(f"{name_of(thread)} ({thread.tid})")
    whole = [_lines(table, layout, width) for table in _tables(thread, layout, None)]
    if layout.all_rows or 1 + sum(map(len, whole)) <= lines:
        return [name, *_joined(whole)]
    return [name + PARTIAL, *_joined(_first_rows(thread, layout, width, lines - 1))]


def _first_rows(thread: Thread, layout: Layout, width: int, lines: int) -> list[list[str]]:
    """As many rows of each table as fit, and of the last ones, which say why, more if these do."""
    shown: list[list[str]] = []
    for most in reversed(MOST_ROWS):
        longer = [_lines(table, layout, width) for table in _tables(thread, layout, most)]
        shown = shown or longer
        for place in reversed(range(len(shown))):
            if sum(map(len, shown)) - len(shown[place]) + len(longer[place]) <= lines:
                shown[place] = longer[place]
    return shown


def _joined(tables: list[list[str]]) -> list[str]:
    return [line for table in tables for line in table]


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
