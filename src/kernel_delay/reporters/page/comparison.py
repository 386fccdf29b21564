"""A comparison of two recordings as a page: what changed first, then what was compared."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from kernel_delay.analysis.comparison import Change, ChangeKind, Comparison, tolerance
from kernel_delay.analysis.figures import Unit, less_is_better
from kernel_delay.formatting import printable
from kernel_delay.reporters.changes import (
    difference_text,
    interval_text,
    threads_text,
    value_text,
)
from kernel_delay.reporters.comparison import remarks
from kernel_delay.reporters.comparison_sides import Side
from kernel_delay.reporters.json import ascii_json
from kernel_delay.reporters.page import document
from kernel_delay.reporters.page.contents import about
from kernel_delay.reporters.round_comparison import are_too_few

MOST_CHANGES = 20_000
"""Rows of the page. Those beyond, which matter least, are counted."""


class PageSide(Struct, frozen=True):
    """One of the two: how the user called it, what was read of it, and what it is of."""

    file: str
    what: Literal["Samples", "Rounds"]
    samples: int
    window_ns: int
    about: tuple[tuple[str, str], ...]


class PageChange(Struct, frozen=True):
    """A figure, as the text has it; and where its change lies, to be drawn.

    `change`, and the interval from `low` to `high`, are parts of 1: of what it was before, or,
    where `unit` is `share`, of all time. None has no end. `matters` is a part of the threads' time.
    `ns` are both lengths where it is one: a table has them in one unit. `judged` is what a change
    beyond chance is, where one direction of the figure is better.
    """

    threads: str
    name: str
    unit: Unit
    kind: ChangeKind
    before: str
    after: str
    difference: str
    interval: str
    change: float | None
    low: float
    high: float | None
    tolerance: float
    matters: float
    ns: tuple[float, float] | None
    judged: Literal["better", "worse"] | None


class PageComparison(Struct, frozen=True):
    """All that the page shows. `left_out` are changes that found no room.

    `too_few`: there are too few samples to claim that anything changed, or that nothing did.
    """

    title: str
    before: PageSide
    after: PageSide
    remarks: str
    changes: tuple[PageChange, ...]
    left_out: int
    too_few: bool


def render(before: Side, after: Side, comparison: Comparison) -> Iterator[str]:
    """The page, in pieces."""
    title = f"{printable(before.file)} and {printable(after.file)}"
    page = PageComparison(
        title=title,
        before=_side(before),
        after=_side(after),
        remarks=" ".join(remarks(before, after, comparison)),
        changes=tuple(_changes(comparison)),
        left_out=max(0, len(comparison.changes) - MOST_CHANGES),
        too_few=are_too_few(comparison),
    )
    return document("comparison", title, iter([ascii_json(page)]))


def _side(side: Side) -> PageSide:
    known = tuple(about(side.header, None))
    what: Literal["Samples", "Rounds"] = "Samples" if side.rounds is None else "Rounds"
    return PageSide(printable(side.file), what, side.samples, side.window_ns, known)


def _changes(comparison: Comparison) -> Iterator[PageChange]:
    for change in comparison.changes[:MOST_CHANGES]:
        yield PageChange(
            threads=threads_text(change, comparison),
            name=printable(change.name),
            unit=change.unit,
            kind=change.kind,
            before=value_text(change, change.before),
            after=value_text(change, change.after),
            difference=difference_text(change),
            interval=interval_text(change),
            change=change.change,
            low=change.low,
            high=change.high,
            tolerance=tolerance(change),
            matters=change.matters,
            ns=(round(change.before, 1), round(change.after, 1)) if change.unit == "ns" else None,
            judged=_judged(change, comparison),
        )


def _judged(change: Change, comparison: Comparison) -> Literal["better", "worse"] | None:
    if change.kind not in ("more", "less"):
        return None
    if not less_is_better(change.name, of_rounds=comparison.of == "rounds"):
        return None
    return "worse" if change.kind == "more" else "better"
