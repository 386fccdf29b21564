"""A comparison of two recordings, as text and for JSON."""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from kernel_delay.analysis.comparison import (
    LEAST_SAMPLES,
    Change,
    ChangeKind,
    Comparison,
)
from kernel_delay.formatting import printable
from kernel_delay.reporters import round_comparison
from kernel_delay.reporters.changes import (
    difference_text,
    interval_text,
    name_text,
    threads_cell,
    value_text,
)
from kernel_delay.reporters.comparison_sides import Side, side_lines, threshold_remarks

HEADING = f"{'THREADS':12} {'FIGURE':20} {'BEFORE':>9} {'AFTER':>9} {'CHANGE':>8} {'INTERVAL':>15}"

_MARKS: dict[ChangeKind, str] = {"more": "", "less": "", "minor": "~", "same": "=", "unclear": "?"}


class Document(Struct, frozen=True):
    """What --json writes."""

    schema: Literal["kernel-delay-comparison/1"]
    before: Side
    after: Side
    comparison: Comparison


def document(before: Side, after: Side, comparison: Comparison) -> Document:
    """A comparison for JSON."""
    return Document("kernel-delay-comparison/1", before, after, comparison)


def lines(
    before: Side, after: Side, comparison: Comparison, *, all_of_them: bool = False
) -> Iterator[str]:
    """The text, line by line: what changed, what matters most first."""
    yield from side_lines("BEFORE", before)
    yield from side_lines("AFTER", after)
    if round_comparison.are_too_few(comparison):
        yield from round_comparison.table(comparison, all_of_them=all_of_them)
    else:
        yield from _table(comparison, all_of_them=all_of_them)
    yield from (f"# {remark}\n" for remark in remarks(before, after, comparison))


def _table(comparison: Comparison, *, all_of_them: bool) -> Iterator[str]:
    shown = [
        change for change in comparison.changes if all_of_them or change.kind in ("more", "less")
    ]
    if shown:
        yield f"\n{HEADING}\n"
    for change in shown:
        yield f"{_line(change, comparison)}\n"
    yield "\n"


def _line(change: Change, comparison: Comparison) -> str:
    before, after = (value_text(change, value) for value in (change.before, change.after))
    return (
        f"{threads_cell(change, comparison)} {name_text(change.name):20}"
        f" {before:>9} {after:>9} {difference_text(change):>8}"
        f" {interval_text(change):>15}{_MARKS[change.kind]:>2}"
    ).rstrip()


def remarks(before: Side, after: Side, comparison: Comparison) -> Iterator[str]:
    """What must be known of all figures, as lines."""
    yield from _judged(comparison)
    yield from threshold_remarks(before, after)
    yield from _unmeasured(comparison)
    yield from _one_sided(comparison)


def _judged(comparison: Comparison) -> Iterator[str]:
    """Of how many figures something can be said."""
    if not any(map(all, comparison.threads.values())):
        yield "There is nothing to compare: no threads of one name are on both sides."
    elif round_comparison.are_too_few(comparison):
        yield from round_comparison.remarks(comparison)
    elif min(comparison.before_samples, comparison.after_samples) < LEAST_SAMPLES:
        yield "Nothing is claimed: one sample can't distinguish change from chance. Take two or"
        yield "more of each side, as with --sample-count 10."
    else:
        yield from _counted(comparison)
        yield from round_comparison.few_remark(comparison)


def _counted(comparison: Comparison) -> Iterator[str]:
    """How many figures changed, and how many did not."""
    kinds = Counter(change.kind for change in comparison.changes)
    changed, same, unclear = kinds["more"] + kinds["less"], kinds["same"], kinds["unclear"]
    yield f"{changed} of {kinds.total()} figures changed beyond chance, and by more than 5 %"
    other = "shares: 1 point" if comparison.of == "rounds" else "shares: 1 point; p99: twice"
    yield f"({other}). The intervals hold all together with 95 %."
    if kinds["minor"]:
        yield f"{kinds['minor']} more did, but by less than 0.1 % of the threads' time."
    if same:
        yield f"{same} changed by less than that, if at all."
    if unclear:
        samples = "rounds" if comparison.of == "rounds" else "samples"
        yield f"{unclear} vary too much to claim a change. Take more {samples}."


def _unmeasured(comparison: Comparison) -> Iterator[str]:
    """What was measured on one side alone."""
    found = comparison.unmeasured
    if side := found.get("accounts"):
        yield f"Where the time went was not measured {side}: it is not compared."
    if side := found.get("calls"):
        yield f"System calls other than polls were not counted {side}: they are not compared."
    # Page faults go with the others.
    if (side := found.get("page_faults")) and side not in (
        found.get("accounts"),
        found.get("calls"),
    ):
        yield f"Page faults were not seen {side}: their time is in user there."


def _one_sided(comparison: Comparison) -> Iterator[str]:
    for side, place in (("before", 0), ("after", 1)):
        only = [name for name, counts in comparison.threads.items() if not counts[1 - place]]
        if only:
            yield f"Only {side}: {printable(', '.join(only))}."
