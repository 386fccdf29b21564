"""Changes of flows on a page: charts over time, and the last."""

from collections import deque
from collections.abc import Sequence

from kernel_delay.formatting import printable
from kernel_delay.monitors.flows.events import FlowEvent, match_text, reason_text
from kernel_delay.reporters.page.charts import PageChart, Rates
from kernel_delay.reporters.page.rows import (
    MOST_ROWS,
    PageTable,
    Row,
    count_text,
    seconds_text,
    short_text,
)


class FlowsPage:
    """Changes of flows."""

    subject = "What became of flows"

    def __init__(self) -> None:
        """Start before the first."""
        self._changes, self._reasons = Rates(), Rates()
        self._last = deque[tuple[FlowEvent, bool]](maxlen=MOST_ROWS)
        self._count = 0

    def add(self, event: FlowEvent, *, came_back: bool) -> None:
        """Take the next."""
        self._count += 1
        self._changes.add(event.change, event.time_ns)
        if event.change == "delete":
            self._reasons.add(reason_text(event), event.time_ns)
        self._last.append((event, came_back))

    def charts(self) -> Sequence[PageChart]:
        """How many there were of each change, and of each reason."""
        return [
            self._changes.chart("changes", "Changes of flows"),
            self._reasons.chart("reasons", "Deletions, by reason"),
        ]

    def tables(self) -> Sequence[PageTable]:
        """What was last."""
        headings = (
            *("At, s", "Flow", "Change", "Reason", "Age, s", "Packets", "Datapath", "Match"),
        )
        rows = tuple(_flow_row(event, came_back) for event, came_back in self._last)
        left_out = self._count - len(rows)
        return [PageTable("last", "The last changes", headings, (1, 2, 3, 6, 7), rows, left_out)]


def _flow_row(event: FlowEvent, came_back: bool) -> Row:
    is_insert = event.change == "insert"
    reason = reason_text(event) if event.change == "delete" else "came back" if came_back else ""
    return (
        seconds_text(event.time_ns),
        printable(event.ufid),
        event.change,
        reason,
        "" if is_insert else f"{event.age_ns / 1e9:,.1f}",
        count_text(event.n_packets),
        printable(event.datapath),
        short_text(match_text(event)),
    )
