"""What Open vSwitch or OVN counted itself, as tables of the page: of a sample, and of all."""

from collections import Counter

from kernel_delay.analysis.verdict.formatting import length
from kernel_delay.formatting import printable
from kernel_delay.model import Coverage, Stopwatch
from kernel_delay.reporters.page.rows import PageTable, ms_text

MOST_NAMES = 1000
"""Counters, and stopwatches, of all samples together."""


def coverage_tables(coverage: Coverage | None) -> tuple[PageTable, ...]:
    """Return the counters that moved and the stopwatches that had samples; none if not known."""
    if coverage is None or coverage.unread is not None:
        return ()
    tables = (_counters(coverage), _stopwatches(coverage.stopwatches))
    return tuple(table for table in tables if table.rows)


class CoverageTotals:
    """The counters and stopwatches of all samples."""

    def __init__(self) -> None:
        """Begin with none."""
        self._asked_ns = 0
        self._counters: Counter[str] = Counter()
        self._stopwatches: dict[str, Stopwatch] = {}

    def add(self, coverage: Coverage | None) -> None:
        """Add those of the next sample: what moved since the answer before."""
        if coverage is None or coverage.unread is not None:
            return
        self._asked_ns += coverage.asked_ns
        for name, count in coverage.counters.items():
            if name in self._counters or len(self._counters) < MOST_NAMES:
                self._counters[name] += count
        for each in coverage.stopwatches:
            known = self._stopwatches.get(each.name)
            if known is not None:
                self._stopwatches[each.name] = _together(known, each)
            elif len(self._stopwatches) < MOST_NAMES:
                self._stopwatches[each.name] = each

    def tables(self) -> tuple[PageTable, ...]:
        """Return the tables of all together."""
        longest = sorted(self._stopwatches.values(), key=lambda each: -(each.longest_ns or 0))
        counters = dict(self._counters.most_common())
        return coverage_tables(Coverage(self._asked_ns, counters, tuple(longest)))


def _together(known: Stopwatch, newer: Stopwatch) -> Stopwatch:
    """Add the samples; the average is a short term one, so that the newer stays."""
    longest = [each.longest_ns for each in (known, newer) if each.longest_ns is not None]
    return Stopwatch(
        newer.name, known.samples + newer.samples, newer.average_ns, max(longest, default=None)
    )


def _counters(coverage: Coverage) -> PageTable:
    seconds = max(coverage.asked_ns, 1) / 1e9
    return PageTable(
        id="coverage",
        title=f"Coverage counters, of {length(coverage.asked_ns)}",
        headings=("EVENT", "COUNT", "PER SECOND"),
        texts=(0,),
        rows=tuple(
            (printable(name), f"{count:,}", f"{count / seconds:,.1f}")
            for name, count in coverage.counters.items()
        ),
        left_out=0,
    )


def _stopwatches(stopwatches: tuple[Stopwatch, ...]) -> PageTable:
    return PageTable(
        id="stopwatches",
        title="Stopwatches",
        headings=("STOPWATCH", "SAMPLES", "AVERAGE MS", "LONGEST MS"),
        texts=(0,),
        rows=tuple(
            (
                printable(each.name),
                f"{each.samples:,}",
                ms_text(each.average_ns),
                ms_text(each.longest_ns),
            )
            for each in stopwatches
        ),
        left_out=0,
    )
