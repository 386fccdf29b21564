"""What each of Open vSwitch's monitors has for its page."""

from collections import deque
from collections.abc import Sequence
from functools import partial

from kernel_delay.ovs.bridge_loop import Interval
from kernel_delay.ovs.flows import FlowEvent, reason_text
from kernel_delay.ovs.operations import OperationEvent, Request, format_actions
from kernel_delay.ovs.revalidator import RevalidatorRound
from kernel_delay.ovs.upcalls import UpcallSet, costs_of
from kernel_delay.printable import printable
from kernel_delay.reporters.datapath_ops import answer, flow_match, packet_text
from kernel_delay.reporters.flows import match_text
from kernel_delay.reporters.page.charts import PageChart, Peaks, Rates
from kernel_delay.reporters.page.rows import MOST_ROWS, Largest, PageTable, Row

NS_PER_US = 1000
NS_PER_MS = 1_000_000

MOST_TEXT = 1000
"""Characters of a match, or of actions: one can be of 64 KiB in a message, and more as text."""


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


class RoundsPage:
    """Rounds of the revalidators, of each datapath."""

    subject = "The rounds of the revalidators"

    def __init__(self) -> None:
        """Start before the first."""
        self._lengths = Peaks(NS_PER_MS)
        self._flows = Peaks()
        self._longest = Largest()

    def add(self, datapath: str, found: RevalidatorRound, remarks: Sequence[str]) -> None:
        """Take a round, and what is said of it."""
        self._lengths.add(datapath, found.stop_ns, found.duration_ns)
        self._flows.add(datapath, found.stop_ns, found.n_flows)
        if found.state is not None:
            self._flows.add(f"{datapath}: limit", found.stop_ns, found.state.flow_limit)
        self._longest.add(found.duration_ns, partial(_round_row, datapath, found, remarks))

    def charts(self) -> Sequence[PageChart]:
        """How long they were, and of how many flows."""
        return [
            self._lengths.chart("rounds", "Rounds", "ms"),
            self._flows.chart("flows", "Flows, and their limit", ""),
        ]

    def tables(self) -> Sequence[PageTable]:
        """The rounds on which the flow limit depends."""
        headings = (
            *("Ended at, s", "Datapath", "Flows", "Revalidated", "Deleted", "Limit", "Length, ms"),
            *("Run, ms", "Ready, ms", "Blocked, ms", "Waited before, ms", "What it is due to"),
        )
        return [self._longest.table("longest", "The longest rounds", headings, (1, 11))]


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


def _loop_row(interval: Interval) -> Row:
    thread = f"{printable(interval.comm)} ({interval.tid})"
    return _s(interval.stop_ns), _us(interval.duration_ns), thread


def _round_row(datapath: str, found: RevalidatorRound, remarks: Sequence[str]) -> Row:
    state, time = found.state, found.leader_time
    parts = (time.run_ns, time.runnable_ns, time.blocked_ns) if time else (None, None, None)
    return (
        _s(found.stop_ns),
        printable(datapath),
        _count(found.n_flows),
        _count(found.revalidated),
        _count(found.deleted),
        _count(state.flow_limit if state else None),
        _ms(found.duration_ns),
        *map(_ms, parts),
        _ms(found.waited_ns),
        "; ".join(remark.strip(" !") for remark in remarks),
    )


def _flow_row(event: FlowEvent, came_back: bool) -> Row:
    is_insert = event.change == "insert"
    reason = reason_text(event) if event.change == "delete" else "came back" if came_back else ""
    return (
        _s(event.time_ns),
        printable(event.ufid),
        event.change,
        reason,
        "" if is_insert else f"{event.age_ns / 1e9:,.1f}",
        _count(event.n_packets),
        printable(event.datapath),
        _short(match_text(event)),
    )


def _operation_row(event: OperationEvent, request: Request) -> Row:
    match = flow_match(request) if request.packet is None else packet_text(request)
    actions = "" if request.actions is None else printable(format_actions(request.actions))
    return (
        _s(event.time_ns),
        f"{printable(event.comm)} ({event.tid})",
        event.operation,
        answer(event),
        _us(event.duration_ns),
        request.ufid or "",
        _short(match or ""),
        _short(actions),
    )


def _upcall_row(found: UpcallSet) -> Row:
    received, costs = found.recv_upcall, costs_of(found)
    return (
        _s(received.time_ns),
        f"{printable(received.comm)} ({received.tid})",
        printable(received.datapath),
        _count(received.packet_len),
        _count(found.batch),
        _us(costs.kernel_to_vswitchd_ns),
        _us(costs.lookup_ns),
        _us(costs.put_to_execute_ns),
        _us(costs.execute_to_kernel_ns),
        _us(costs.total_ns),
    )


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


def _s(time_ns: int) -> str:
    """CLOCK_MONOTONIC, as the text has it."""
    seconds, rest_ns = divmod(time_ns, 1_000_000_000)
    return f"{seconds}.{rest_ns // NS_PER_US:06}"


def _ms(time_ns: int | None) -> str:
    return "" if time_ns is None else f"{time_ns / NS_PER_MS:,.1f}"


def _us(time_ns: int | None) -> str:
    return "" if time_ns is None else f"{time_ns / NS_PER_US:,.1f}"


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
