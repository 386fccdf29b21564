"""Rounds that are too few to distinguish change from chance: in what they differ, as text."""

from collections.abc import Iterator

from kernel_delay.analysis.comparison import Change, Comparison
from kernel_delay.formatting import printable
from kernel_delay.reporters.changes import (
    difference_text,
    length_text,
    name_text,
    threads_cell,
    value_text,
)

HEADING = (
    f"{'THREADS':12} {'FIGURE':20} {'BEFORE':>9} {'AFTER':>9} {'CHANGE':>8} {'OF A ROUND':>15}"
)

CHANGE_SHARE = 0.01
"""What differs by less of a round is shown with --all only."""


def are_too_few(comparison: Comparison) -> bool:
    """Whether there are so few rounds of each class that nothing is claimed."""
    both = [name for name, counts in comparison.threads.items() if all(counts)]
    return bool(both) and comparison.of == "rounds" and set(both) <= set(comparison.few)


def table(comparison: Comparison, *, all_of_them: bool) -> Iterator[str]:
    """What of the rounds of the one side is more, or less: what is most of a round first."""
    shown = [change for change in comparison.changes if all_of_them or _is_reported(change)]
    if shown:
        yield f"\n{HEADING}\n"
    for change in shown:
        yield f"{_line(change, comparison)}\n"
    yield "\n"
    if not any(map(_is_reported, comparison.changes)):
        yield "# The rounds' means differ by less than 1 % of a round.\n"
    elif not all_of_them:
        yield "# These are differences of the rounds' means, by 1 % of a round or more.\n"


def remarks(comparison: Comparison) -> Iterator[str]:
    """What must be known of any figure, as lines."""
    yield "Nothing is claimed: so few rounds can't separate change from chance. It takes"
    yield f"{comparison.enough} of each side, or more of one."


def few_remark(comparison: Comparison) -> Iterator[str]:
    """The same where there are enough of other classes."""
    if comparison.few:
        yield f"Too few rounds to compare: {printable(', '.join(comparison.few))}."


def _is_reported(change: Change) -> bool:
    # Of one round a share says nothing that the lengths don't.
    return change.matters >= CHANGE_SHARE and change.name.endswith((".round", "round.mean"))


def _line(change: Change, comparison: Comparison) -> str:
    before, after = (value_text(change, value) for value in (change.before, change.after))
    return (
        f"{threads_cell(change, comparison)} {name_text(change.name):20}"
        f" {before:>9} {after:>9} {difference_text(change):>8} {_of_a_round(change):>15}"
    ).rstrip()


def _of_a_round(change: Change) -> str:
    """By how much of a round the figure differs."""
    if change.unit != "ns":
        return ""
    more_ns = change.after - change.before
    return f"{'-' if more_ns < 0 else '+'}{length_text(abs(more_ns))}"
