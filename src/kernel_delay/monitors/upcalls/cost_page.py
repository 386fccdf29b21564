"""What upcalls cost, on a page: charts over time, and the longest trips."""

from collections.abc import Sequence
from functools import partial

from kernel_delay.formatting import NS_PER_US, printable
from kernel_delay.monitors.upcalls.costs import costs_of
from kernel_delay.monitors.upcalls.join import UpcallSet
from kernel_delay.reporters.page.charts import PageChart, Peaks, Rates
from kernel_delay.reporters.page.rows import (
    Largest,
    PageTable,
    Row,
    count_text,
    seconds_text,
    us_text,
)


class CostsPage:
    """Trips of upcalls."""

    subject = "What upcalls cost"

    def __init__(self) -> None:
        """Start before the first."""
        self._costs, self._rates = Peaks(NS_PER_US), Rates()
        self._longest = Largest()

    def add(self, found: UpcallSet) -> None:
        """Take the next."""
        received, costs = found.recv_upcall, costs_of(found)
        self._rates.add(f"{received.comm} ({received.tid})", received.time_ns)
        for name, cost_ns in (
            ("kernel to vswitchd", costs.kernel_to_vswitchd_ns),
            ("lookup", costs.lookup_ns),
            ("put to execute", costs.put_to_execute_ns),
            ("execute to kernel", costs.execute_to_kernel_ns),
        ):
            if cost_ns is not None:
                self._costs.add(name, received.time_ns, cost_ns)
        if costs.total_ns is not None:
            self._longest.add(costs.total_ns, partial(_upcall_row, found))

    def charts(self) -> Sequence[PageChart]:
        """What each part of the trip took, and who received how many."""
        return [
            self._costs.chart("costs", "Parts of the trip", "us"),
            self._rates.chart("upcalls", "Upcalls received"),
        ]

    def tables(self) -> Sequence[PageTable]:
        """The longest trips."""
        headings = (
            *("Received at, s", "Handler", "Datapath", "Bytes", "Batch", "Kernel to vswitchd, us"),
            *("Lookup, us", "Put to execute, us", "Execute to kernel, us", "Total, us"),
        )
        return [self._longest.table("longest", "The longest trips", headings, (1, 2))]


def _upcall_row(found: UpcallSet) -> Row:
    received, costs = found.recv_upcall, costs_of(found)
    return (
        seconds_text(received.time_ns),
        f"{printable(received.comm)} ({received.tid})",
        printable(received.datapath),
        count_text(received.packet_len),
        count_text(found.batch),
        us_text(costs.kernel_to_vswitchd_ns),
        us_text(costs.lookup_ns),
        us_text(costs.put_to_execute_ns),
        us_text(costs.execute_to_kernel_ns),
        us_text(costs.total_ns),
    )
