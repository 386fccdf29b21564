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
from kernel_delay.model import RecordingHeader
from kernel_delay.printable import printable

HEADING = f"{'THREADS':12} {'FIGURE':20} {'BEFORE':>9} {'AFTER':>9} {'CHANGE':>8} {'INTERVAL':>15}"

_MARKS: dict[ChangeKind, str] = {"more": "", "less": "", "minor": "~", "same": "=", "unclear": "?"}


class Side(Struct, frozen=True):
    """One of the two recordings: what the user called it, and what was read of it."""

    file: str
    header: RecordingHeader
    samples: int
    window_ns: int


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
    yield from _side("BEFORE", before)
    yield from _side("AFTER", after)
    shown = [
        change for change in comparison.changes if all_of_them or change.kind in ("more", "less")
    ]
    if shown:
        yield f"\n{HEADING}\n"
    for change in shown:
        yield f"{_line(change, comparison)}\n"
    yield "\n"
    yield from (f"# {remark}\n" for remark in remarks(comparison))


def change_text(change: Change) -> str:
    """One change as a sentence without an end: `main write.mean 4.12 µs, was 3.37 µs (+22 %)`."""
    return (
        f"{change.name} of {change.threads} is {value_text(change, change.after)},"
        f" was {value_text(change, change.before)} ({difference_text(change)},"
        f" {interval_text(change)})"
    )


def _side(title: str, side: Side) -> Iterator[str]:
    header, target = side.header, side.header.target
    samples = f"{side.samples:,} sample{'' if side.samples == 1 else 's'}"
    yield f"{title:7} {printable(side.file)}: {samples}, {side.window_ns / 1e9:.1f} s\n"
    where = f"{target.comm} ({target.pid}) on {header.host}, Linux {header.kernel}"
    yield f"{'':7} {printable(where)}\n"


def _line(change: Change, comparison: Comparison) -> str:
    before, after = (value_text(change, value) for value in (change.before, change.after))
    return (
        f"{threads_text(change, comparison):12.12} {_figure(change.name):20}"
        f" {before:>9} {after:>9} {difference_text(change):>8}"
        f" {interval_text(change):>15}{_MARKS[change.kind]:>2}"
    ).rstrip()


def threads_text(change: Change, comparison: Comparison) -> str:
    """Whose figure it is, and how many threads these were, unless it is one."""
    before, after = comparison.threads[change.threads]
    count = f" ({before})" if before == after else f" ({before}→{after})"
    return printable(change.threads) + ("" if before == after == 1 else count)


def _figure(name: str) -> str:
    """A figure's name in its column: what is cut is the call's, not which figure it is."""
    call, dot, which = printable(name).rpartition(".")
    return f"{call:.{20 - len(dot + which)}}{dot}{which}"


def remarks(comparison: Comparison) -> Iterator[str]:
    """What must be known of all figures, as lines."""
    if min(comparison.before_samples, comparison.after_samples) < LEAST_SAMPLES:
        yield "Nothing is claimed: one sample can't tell change from chance. Take two or more of"
        yield "each side, as with --sample-count 10."
        return
    kinds = Counter(change.kind for change in comparison.changes)
    changed, same, unclear = kinds["more"] + kinds["less"], kinds["same"], kinds["unclear"]
    yield f"{changed} of {kinds.total()} figures changed beyond chance, and by more than 5 %"
    yield "(shares: 1 point; p99: twice). The intervals hold all together with 95 %."
    if kinds["minor"]:
        yield f"{kinds['minor']} more did, but by less than 0.1 % of the threads' time."
    if same:
        yield f"{same} changed by less than that, if at all."
    if unclear:
        yield f"Of {unclear} there is no telling: they stray too much. More samples tell more."
    for side, place in (("before", 0), ("after", 1)):
        only = [name for name, counts in comparison.threads.items() if not counts[1 - place]]
        if only:
            yield f"Only {side}: {printable(', '.join(only))}."


def value_text(change: Change, value: float) -> str:
    """One side of a figure, with its unit."""
    match change.unit:
        case "share":
            return f"{100 * value:.2f} %"
        case "ns":
            return _length(value)
        case "per_s":
            return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"


def _length(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.4g} ns"


def difference_text(change: Change) -> str:
    """By how much a figure changed, in percent or points."""
    value = change.change
    if value is None:
        return "new"
    return f"{_percent(value)} {'pt' if change.unit == 'share' else '%'}"


def interval_text(change: Change) -> str:
    """Between what its change is, in the same unit."""
    high = change.high
    # Beyond ten times it is no bound to speak of.
    upper = "…" if high is None or high > 9 else _percent(high)
    return f"{_percent(change.low)} to {upper}"


def _percent(value: float) -> str:
    digits = 0 if abs(value) >= 1 else 1
    return f"{100 * value:+.{digits}f}"
