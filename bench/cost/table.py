"""The committed figures, and what of a measurement is above them.

A figure is a whole number: of instructions, bytes, calls or modules. What figures depend on beside
the sources, such as the kernel's release, is the name of their group.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

Figures = Mapping[str, int]
Table = Mapping[str, Figures]
"""Groups of figures."""

PATH = Path(__file__).with_name("table.json")
WRITE = "make cost COST_ARGS=--write"

MOST_PERCENT = 5

MOST_UNITS = 10
"""So many more are no rise of a small figure, of a program with 30 instructions."""


def read_table() -> Table:
    """Return the committed figures."""
    table: Table = json.loads(PATH.read_text())
    return table


def write_table(measured: Table) -> None:
    """Commit these figures, and keep the groups that were not measured here."""
    table = {**read_table(), **measured} if PATH.exists() else dict(measured)
    PATH.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n")


def rises(measured: Table, committed: Table) -> Iterator[str]:
    """Yield a line for each figure that rose too far, or is not committed."""
    for group, figures in measured.items():
        before = committed.get(group)
        if before is None:
            continue
        for name, value in figures.items():
            if name not in before:
                yield f"{name}: {value:,}, which the table has not ({group})"
            elif _rose(before[name], value):
                yield f"{name}: rose from {before[name]:,} to {value:,} ({group})"


def remarks(measured: Table, committed: Table) -> Iterator[str]:
    """Yield what was not compared, and what fell so far that the table hides a later rise."""
    for group, figures in measured.items():
        before = committed.get(group)
        if before is None:
            yield f"not compared, as the table has no figures of: {group}"
            continue
        for name, value in before.items():
            now = figures.get(name)
            if now is None:
                yield f"{name}: not there any more ({group})"
            elif _rose(now, value):
                yield f"{name}: fell from {value:,} to {now:,} ({group})"


def differ(one: int, other: int) -> bool:
    """Tell whether one of the two rose too far from the other."""
    return _rose(one, other) or _rose(other, one)


def _rose(before: int, now: int) -> bool:
    return now > before + MOST_UNITS and now * 100 > before * (100 + MOST_PERCENT)
