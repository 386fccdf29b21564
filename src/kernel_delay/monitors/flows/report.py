"""Lines for each event that is asked for, and at the end what they come to; or JSON."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.errors import UsageError
from kernel_delay.monitors.flows.events import FlowEvents
from kernel_delay.monitors.monitor import Report
from kernel_delay.ovs.flow_key import FlowFilter
from kernel_delay.ovs.flows import REASONS, UNKNOWN_REASON, FlowChurn, FlowEvent
from kernel_delay.reporters.flows import HEADER, CutEvents, event_lines, json_of, render

if TYPE_CHECKING:
    from kernel_delay.model import RecordingHeader
    from kernel_delay.reporters.page.monitors import FlowsPage

LONGEST_REASON_NUMBER = 10
"""It has 32 bits."""


class FlowReport(Report[FlowEvents, "FlowsPage"]):
    """What happens to flows."""

    LOST = MappingProxyType(
        {
            "flow_events": "events were lost: a larger --buffer-page-count helps",
            "untracked": (
                "results of flows beyond those that are kept track of: new ones are not reported"
            ),
            "unknown_results": "results that are none of keep, delete and modify",
        }
    )

    def __init__(
        self,
        args: argparse.Namespace,
        header: "Callable[[], RecordingHeader | None]",
        stack: ExitStack,
    ) -> None:
        """Raise UsageError for a reason that there is not."""
        self._filter = FlowFilter(args.filter_flows) if args.filter_flows else None
        self._reasons = _reasons(args.reason)
        super().__init__(args, header, stack)
        self._ufid: str = args.ufid or ""
        self._keys: bool = args.flow_keys
        self._churn = FlowChurn()
        self._cut = CutEvents()
        self._flows_before = self._passed_over = 0

    def take(self, record: FlowEvents) -> FlowEvents:
        """Count and print."""
        self._flows_before = record.flows_before
        for event in record.events:
            if self._is_wanted(event):
                self._put_out(event)
            else:
                self._passed_over += 1
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""
        summary = render(self._churn, self._flows_before, self._passed_over)
        self._sum_up(summary, [*self._cut.lines(), *self.missed_lines(missed)])

    def _contents(self) -> "FlowsPage":
        from kernel_delay.reporters.page.monitors import FlowsPage

        return FlowsPage()

    def _is_wanted(self, event: FlowEvent) -> bool:
        if not event.ufid.startswith(self._ufid):
            return False
        if self._reasons is not None and not _is_deletion_for(self._reasons, event):
            return False
        return self._filter is None or self._filter.covers(event.key, event.mask, cut=event.is_cut)

    def _put_out(self, event: FlowEvent) -> None:
        came_back = self._churn.take(event)
        self._cut.take(event)
        if self._json is not None:
            self._json(json_of(event, came_back=came_back))
        if self._page is not None:
            self._page.contents.add(event, came_back=came_back)
        if self._lines:
            lines = event_lines(event, match=self._keys, came_back=came_back)
            self._print_below(HEADER, *lines)


_Reasons = frozenset[str | int]


def _is_deletion_for(reasons: _Reasons, event: FlowEvent) -> bool:
    return event.change == "delete" and not reasons.isdisjoint((event.reason, event.reason_number))


def _reasons(names: str | None) -> _Reasons | None:
    """Those that are asked for by name or number, None for all; UsageError for what is neither."""
    if names is None:
        return None
    return frozenset(map(_reason, names.split(",")))


def _reason(text: str) -> str | int:
    name = text.strip().lower()
    if name in REASONS:
        return name
    name = name.removeprefix(UNKNOWN_REASON)
    if name.isdecimal() and len(name) <= LONGEST_REASON_NUMBER:
        return int(name)
    raise UsageError(f"there is no reason {text!r}; there are: {', '.join(REASONS)}, and numbers")
