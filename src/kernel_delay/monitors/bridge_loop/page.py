"""Passes of the main loop on a page: charts over time, and the longest."""

from collections.abc import Sequence
from functools import partial

from kernel_delay.formatting import NS_PER_MS, printable
from kernel_delay.monitors.bridge_loop.events import Interval
from kernel_delay.reporters.page.charts import PageChart, Peaks
from kernel_delay.reporters.page.rows import Largest, PageTable, Row, seconds_text, us_text


class LoopPage:
    """Passes of the main loop, and waits."""

    subject = "The main loop"

    def __init__(self) -> None:
        """Start before the first."""
        self._lengths = {"run": Peaks(NS_PER_MS), "wait": Peaks(NS_PER_MS)}
        self._longest = Largest()

    def add(self, interval: Interval) -> None:
        """Take a pass or a wait."""
        thread = f"{interval.comm} ({interval.tid})"
        self._lengths[interval.kind].add(thread, interval.stop_ns, interval.duration_ns)
        if interval.kind == "run":
            self._longest.add(interval.duration_ns, partial(_loop_row, interval))

    def charts(self) -> Sequence[PageChart]:
        """Both, each by its own scale."""
        return [
            self._lengths["run"].chart("passes", "Passes", "ms"),
            self._lengths["wait"].chart("waits", "Waits", "ms"),
        ]

    def tables(self) -> Sequence[PageTable]:
        """The passes in which nothing else was answered for longest."""
        headings = ("Ended at, s", "Length, us", "Thread")
        return [self._longest.table("longest", "The longest passes", headings, (2,))]


def _loop_row(interval: Interval) -> Row:
    thread = f"{printable(interval.comm)} ({interval.tid})"
    return seconds_text(interval.stop_ns), us_text(interval.duration_ns), thread
