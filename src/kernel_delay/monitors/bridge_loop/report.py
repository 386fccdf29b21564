"""A line for each pass and wait as it ends, and at the end what they sum up to; or JSON."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.monitors.bridge_loop.events import LoopEvents, LoopHit
from kernel_delay.monitors.monitor import Report
from kernel_delay.ovs.bridge_loop import BridgeLoop
from kernel_delay.reporters.bridge_loop import interval_line, render

if TYPE_CHECKING:
    from kernel_delay.model import RecordingHeader
    from kernel_delay.reporters.page.monitors import LoopPage


class LoopReport(Report[LoopEvents, "LoopPage"]):
    """Passes of the loop, and waits."""

    LOST = MappingProxyType(
        {"loop_events": "events were lost: this process was kept from its CPU for too long"}
    )

    def __init__(
        self,
        args: argparse.Namespace,
        header: "Callable[[], RecordingHeader | None]",
        stack: ExitStack,
    ) -> None:
        """Start before the first."""
        super().__init__(args, header, stack)
        self._loop = BridgeLoop()
        self._log2: bool = args.log2

    def take(self, record: LoopEvents) -> LoopEvents:
        """Count and print, up to as many passes as were asked for."""
        for count, hit in enumerate(record.hits, 1):
            self._take(hit)
            if self.most is not None and self._loop.passes >= self.most:
                self.has_enough = True
                return LoopEvents(record.hits[:count])
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""
        self._sum_up(render(self._loop, log2=self._log2), self.missed_lines(missed))

    def _contents(self) -> "LoopPage":
        from kernel_delay.reporters.page.monitors import LoopPage

        return LoopPage()

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
