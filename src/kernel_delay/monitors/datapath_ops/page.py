"""Operations of the datapath on a page: charts over time, the refused and the longest."""

from collections import deque
from collections.abc import Sequence
from functools import partial

from kernel_delay.formatting import NS_PER_US, printable
from kernel_delay.monitors.datapath_ops.actions import format_actions
from kernel_delay.monitors.datapath_ops.events import OperationEvent, answer
from kernel_delay.monitors.datapath_ops.message import Request, flow_match, packet_text
from kernel_delay.reporters.page.charts import PageChart, Peaks, Rates
from kernel_delay.reporters.page.rows import (
    MOST_ROWS,
    Largest,
    PageTable,
    Row,
    seconds_text,
    short_text,
    us_text,
)


class OperationsPage:
    """Operations of the kernel's datapath, and their answers."""

    subject = "The operations of the kernel's datapath"

    def __init__(self) -> None:
        """Start before the first."""
        self._rates, self._lengths = Rates(), Peaks(NS_PER_US)
        self._longest = Largest()
        self._refused = deque[tuple[OperationEvent, Request]](maxlen=MOST_ROWS)
        self._all_refused = 0

    def add(self, event: OperationEvent, request: Request) -> None:
        """Take the next."""
        self._rates.add(event.operation, event.time_ns)
        if event.error:
            self._rates.add("refused", event.time_ns)
            self._all_refused += 1
            self._refused.append((event, request))
        if event.duration_ns is not None:
            self._lengths.add(event.operation, event.time_ns, event.duration_ns)
            self._longest.add(event.duration_ns, partial(_operation_row, event, request))

    def charts(self) -> Sequence[PageChart]:
        """How many there were, and how long they took."""
        return [
            self._rates.chart("operations", "Operations"),
            self._lengths.chart("lengths", "Time in the kernel", "us"),
        ]

    def tables(self) -> Sequence[PageTable]:
        """What was refused, and what took longest."""
        headings = (
            *("At, s", "Thread", "Operation", "Answer", "In the kernel, us", "Flow", "Match"),
            "Actions",
        )
        texts = (1, 2, 3, 5, 6, 7)
        refused = tuple(_operation_row(*each) for each in self._refused)
        left_out = self._all_refused - len(refused)
        return [
            PageTable("refused", "The last refused", headings, texts, refused, left_out),
            self._longest.table("longest", "The longest operations", headings, texts),
        ]


def _operation_row(event: OperationEvent, request: Request) -> Row:
    match = flow_match(request) if request.packet is None else packet_text(request)
    actions = "" if request.actions is None else printable(format_actions(request.actions))
    return (
        seconds_text(event.time_ns),
        f"{printable(event.comm)} ({event.tid})",
        event.operation,
        answer(event),
        us_text(event.duration_ns),
        request.ufid or "",
        short_text(match or ""),
        short_text(actions),
    )
