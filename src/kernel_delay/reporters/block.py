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
    whole = list(_block(thread, layout, width, None))
    if layout.all_rows or len(whole) <= lines:
        return whole
    for most in MOST_ROWS:
        shorter = list(_block(thread, layout, width, most))
        if len(shorter) <= lines:
            break
    return shorter


def _block(thread: Thread, layout: Layout, width: int, most: int | None) -> Iterator[str]:
    yield layout.heading(f"{name_of(thread)} ({thread.tid})") + ("" if most is None else PARTIAL)
    for table in _tables(thread, layout, most):
        if not table.rows:
            continue
        for headings, *rows in fitted(table, width - len(INDENT)):
            yield INDENT + layout.heading(headings)
            yield from (INDENT + row for row in rows)


def _tables(thread: Thread, layout: Layout, most: int | None) -> Iterator[Table]:
    if most is None:
        yield from tables(thread)
    else:
        yield from short_tables(thread, most)
    yield from accounting_tables(thread, most)
    if layout.percentiles:
        table = percentile_table(thread)
        yield table if most is None else first_rows(table, most)
