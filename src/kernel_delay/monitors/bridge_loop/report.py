"""A line for each pass and wait as it ends, and at the end what they sum up to; or JSON."""

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.analysis.histogram import Quantiles
from kernel_delay.formatting import NS_PER_S, printable
from kernel_delay.monitors.bridge_loop.events import (
    BridgeLoop,
    Interval,
    LoopEvents,
    LoopHit,
    LoopTimes,
)
from kernel_delay.monitors.monitor import Outputs, Report
from kernel_delay.reporters.histogram import bucket_lines

if TYPE_CHECKING:
    from kernel_delay.commands.options.pages import EventPage
    from kernel_delay.monitors.bridge_loop.page import LoopPage

TITLES = {"run": "bridge run loop time ", "wait": "poll_block() wait time"}
RULE = "-" * 50


def interval_line(interval: Interval) -> str:
    """One pass or wait: `- [411887@ovs-vswitchd] bridge run loop time : 0:00:00.000090274`."""
    return (
        f"- [{interval.tid}@{printable(interval.comm)}] {TITLES[interval.kind]}: "
        f"{_clock(interval.duration_ns)}"
    )


def render(loop: BridgeLoop, *, log2: bool = False) -> str:
    """The summary: both histograms, linear or by powers of two, and what they boil down to."""
    lines = [RULE, "Showing run time histograms in micro seconds:", RULE]
    for title, times in (("bridge_run_time", loop.runs), ("poll_block_wait_time", loop.waits)):
        buckets = (times.log2 if log2 else times.linear).buckets()
        lines += [f"@{title}:", *(bucket_lines(buckets) or ["(none was seen)"]), ""]
    rate = loop.passes_per_second
    per_second = "" if rate is None else f", {float(rate):.2f} per second"
    lines.append(f"{loop.passes} passes in {_clock(loop.duration_ns)}{per_second}")
    lines += _quantiles("run", loop.runs) + _quantiles("wait", loop.waits)
    if loop.unpaired:
        lines.append(f"{loop.unpaired} events out of turn: some were missed, and their intervals")
    return "\n".join(lines)


def _quantiles(name: str, times: LoopTimes) -> list[str]:
    quantiles: Quantiles = times.quantiles
    p50, p99 = quantiles.quantile(Fraction(1, 2)), quantiles.quantile(Fraction(99, 100))
    if p50 is None or p99 is None or quantiles.max is None:
        return []
    return [f"{name:<4}  p50 {_us(p50)}, p99 {_us(p99)}, max {_us(quantiles.max)}"]


def _us(time_ns: int) -> str:
    return f"{time_ns / 1000:.3f} us"


def _clock(duration_ns: int) -> str:
    seconds, fraction_ns = divmod(duration_ns, NS_PER_S)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction_ns:09}"


class LoopReport(Report[LoopEvents]):
    """Passes of the loop, and waits."""

    _page: "EventPage[LoopPage] | None"

    LOST = MappingProxyType(
        {"loop_events": "events were lost: this process was kept from its CPU for too long"}
    )

    def __init__(
        self,
        outputs: Outputs,
        *,
        log2: bool,
    ) -> None:
        """Start before the first."""
        super().__init__(outputs)
        self._loop = BridgeLoop()
        self._log2 = log2

    def take(self, record: LoopEvents) -> LoopEvents:
        """Count and print, up to as many passes as were asked for."""
        for count, hit in enumerate(record.hits, 1):
            self._take(hit)
            if self._most is not None and self._loop.passes >= self._most:
                self.has_enough = True
                return LoopEvents(record.hits[:count])
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""
        self._sum_up(render(self._loop, log2=self._log2), self.missed_lines(missed))

    def _take(self, hit: LoopHit) -> None:
        if hit.lost_before:
            self._loop.lost()
        interval = self._loop.add(hit.event)
        if interval is None:
            return
        if self._json is not None:
            self._json(interval)
        if self._page is not None:
            self._page.contents.add(interval)
        if self._lines:
            print(interval_line(interval))
