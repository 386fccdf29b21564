"""What Open vSwitch or OVN counted itself, as tables."""

from collections.abc import Iterator

from kernel_delay.analysis.verdict.formatting import length
from kernel_delay.formatting import printable
from kernel_delay.model import Coverage, Stopwatch
from kernel_delay.reporters.layout import Layout

MOST_COUNTERS = 20
MOST_STOPWATCHES = 10


def coverage_lines(coverage: Coverage | None, layout: Layout) -> Iterator[str]:
    """The events that happened and the stopwatches that had samples; nothing if none is known."""
    if coverage is None or coverage.unread is not None:
        return
    yield from _counters(coverage, layout)
    if coverage.stopwatches:
        yield from _stopwatches(coverage.stopwatches, layout)


def _counters(coverage: Coverage, layout: Layout) -> Iterator[str]:
    yield ""
    yield ""
    time = length(coverage.asked_ns)
    yield layout.heading(f"# COVERAGE COUNTERS, OF THE {time} BETWEEN TWO ANSWERS:")
    yield layout.heading(f"  {'COUNT':>12} {'PER SECOND':>14}  EVENT")
    yield layout.heading(f"  {'-' * 12} {'-' * 14}  {'-' * 24}")
    seconds = max(coverage.asked_ns, 1) / 1e9
    for name, count in list(coverage.counters.items())[:MOST_COUNTERS]:
        yield f"  {count:12,} {count / seconds:14,.1f}  {printable(name)}"
    if not coverage.counters:
        yield "  none moved"
    if (left := len(coverage.counters) - MOST_COUNTERS) > 0:
        yield f"  and {left} that moved less"


def _stopwatches(stopwatches: tuple[Stopwatch, ...], layout: Layout) -> Iterator[str]:
    yield ""
    yield layout.heading(f"  {'SAMPLES':>12} {'AVERAGE':>14} {'LONGEST':>14}  STOPWATCH")
    yield layout.heading(f"  {'-' * 12} {'-' * 14} {'-' * 14}  {'-' * 24}")
    for each in stopwatches[:MOST_STOPWATCHES]:
        longest = "" if each.longest_ns is None else length(each.longest_ns)
        average = length(each.average_ns)
        yield f"  {each.samples:12,} {average:>14} {longest:>14}  {printable(each.name)}"
