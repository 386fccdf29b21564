"""Rounds of the revalidators on a page: charts over time, and the longest."""

from collections.abc import Sequence
from functools import partial

from kernel_delay.formatting import NS_PER_MS, printable
from kernel_delay.monitors.revalidator.events import FlowCheck, RevalidatorRound
from kernel_delay.reporters.page.charts import PageChart, Peaks
from kernel_delay.reporters.page.rows import (
    Largest,
    PageTable,
    Row,
    count_text,
    ms_text,
    seconds_text,
    us_text,
)

CHECK_HEADINGS = (
    *("Round ended at, s", "Datapath", "UFID", "Packets", "Age, ms", "Check, us", "Ready, us"),
    "Result",
)


class RoundsPage:
    """Rounds of the revalidators, of each datapath."""

    subject = "The rounds of the revalidators"

    def __init__(self) -> None:
        """Start before the first."""
        self._lengths = Peaks(NS_PER_MS)
        self._flows = Peaks()
        self._longest = Largest()
        self._slowest = Largest()

    def add(self, datapath: str, found: RevalidatorRound, remarks: Sequence[str]) -> None:
        """Take a round, and what is said of it."""
        self._lengths.add(datapath, found.stop_ns, found.duration_ns)
        self._flows.add(datapath, found.stop_ns, found.n_flows)
        if found.state is not None:
            self._flows.add(f"{datapath}: limit", found.stop_ns, found.state.flow_limit)
        self._longest.add(found.duration_ns, partial(_round_row, datapath, found, remarks))
        for check in found.checks.slowest if found.checks else ():
            self._slowest.add(check.work_ns, partial(_check_row, datapath, found, check))

    def charts(self) -> Sequence[PageChart]:
        """How long they were, and of how many flows."""
        return [
            self._lengths.chart("rounds", "Rounds", "ms"),
            self._flows.chart("flows", "Flows, and their limit", ""),
        ]

    def tables(self) -> Sequence[PageTable]:
        """The rounds on which the flow limit depends; with `--slowest` the checks in them."""
        headings = (
            *("Ended at, s", "Datapath", "Flows", "Revalidated", "Deleted", "Limit", "Length, ms"),
            *("Run, ms", "Ready, ms", "Blocked, ms", "Waited before, ms", "What it is due to"),
        )
        longest = self._longest.table("longest", "The longest rounds", headings, (1, 11))
        title = "The slowest checks of flows against the OpenFlow tables"
        slowest = self._slowest.table("slowest", title, CHECK_HEADINGS, (1, 2, 7))
        return [longest, slowest] if slowest.rows else [longest]


def _check_row(datapath: str, found: RevalidatorRound, check: FlowCheck) -> Row:
    return (
        seconds_text(found.stop_ns),
        printable(datapath),
        printable(check.ufid),
        count_text(check.n_packets),
        count_text(check.age_ms),
        us_text(check.ns),
        us_text(check.waited_ns),
        check.result,
    )


def _round_row(datapath: str, found: RevalidatorRound, remarks: Sequence[str]) -> Row:
    state, time = found.state, found.leader_time
    parts = (time.run_ns, time.runnable_ns, time.blocked_ns) if time else (None, None, None)
    return (
        seconds_text(found.stop_ns),
        printable(datapath),
        count_text(found.n_flows),
        count_text(found.revalidated),
        count_text(found.deleted),
        count_text(state.flow_limit if state else None),
        ms_text(found.duration_ns),
        *map(ms_text, parts),
        ms_text(found.waited_ns),
        "; ".join(remark.strip(" !") for remark in remarks),
    )
