"""A change of a comparison, as text: whose it is, of which figure, and by how much."""

from kernel_delay.analysis.comparison import Change, Comparison
from kernel_delay.formatting import printable

# Columns of a terminal for the threads.
_THREADS = 12


def change_text(change: Change) -> str:
    """One change as a sentence without an end: `main write.mean 4.12 µs, was 3.37 µs (+22 %)`."""
    return (
        f"{change.name} of {change.threads} is {value_text(change, change.after)},"
        f" was {value_text(change, change.before)} ({difference_text(change)},"
        f" {interval_text(change)})"
    )


def threads_text(change: Change, comparison: Comparison) -> str:
    """Whose figure it is, and how many threads, or rounds of these, unless it is one."""
    before, after = comparison.threads[change.threads]
    count = f" ({before})" if before == after else f" ({before}→{after})"
    return printable(change.threads) + ("" if before == after == 1 else count)


def threads_cell(change: Change, comparison: Comparison) -> str:
    """The same in its column: without a number that has no room."""
    text = threads_text(change, comparison)
    return f"{text if len(text) <= _THREADS else printable(change.threads):{_THREADS}.{_THREADS}}"


def name_text(name: str) -> str:
    """A figure's name in its column: what is cut is the call's, not which figure it is."""
    call, dot, which = printable(name).rpartition(".")
    return f"{call:.{20 - len(dot + which)}}{dot}{which}"


def value_text(change: Change, value: float) -> str:
    """One side of a figure, with its unit."""
    match change.unit:
        case "share":
            return f"{100 * value:.2f} %"
        case "ns":
            return length_text(value)
        case "per_s":
            return f"{value:,.0f}/s" if value >= 100 else f"{value:.3g}/s"
        case "count":
            return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def length_text(ns: float) -> str:
    """A length in four digits, with its unit."""
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
