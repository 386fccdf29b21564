"""Each event of upcalls as it comes, and at the end what the upcalls cost; or JSON."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from kernel_delay.analysis.histogram import equal_width
from kernel_delay.formatting import NS_PER_US, printable
from kernel_delay.monitors.monitor import RULES_LOST, Outputs, Report
from kernel_delay.monitors.upcalls.costs import Analysis, Costs, Statistics, analyse, costs_of
from kernel_delay.monitors.upcalls.events import (
    EVENT_TYPES,
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    PortName,
    RecvUpcall,
    UpcallEvents,
)
from kernel_delay.monitors.upcalls.join import Joined, UpcallSet, join
from kernel_delay.openvswitch.flow_key import datapath_port
from kernel_delay.reporters import print_message
from kernel_delay.reporters.histogram import SIGN, bar, count_per_sign, equal_width_lines

if TYPE_CHECKING:
    from kernel_delay.commands.options.pages import EventPage
    from kernel_delay.monitors.upcalls.cost_page import CostsPage

DEFAULT_BUCKETS = 20
MAX_BATCH_GAP = 4

NAMES: Mapping[type[Event], str] = {
    DpUpcall: "openvswitch:ovs_dp_upcall",
    RecvUpcall: "dpif_recv:recv_upcall",
    FlowPut: "dpif_netlink_operate__:op_flow_put",
    FlowExecute: "dpif_netlink_operate__:op_flow_execute",
    PacketCmdExecute: "ovs_packet_cmd_execute",
}

EVENT_HEADER = (
    f"{'EVENT':<24} {'COMM':<16} {'TID':>8} {'CPU':>5} {'TIME':>18}  DATAPATH/PORT/LEN/LINEAR_LEN"
)


def event_line(event: Event) -> str:
    """One event, under EVENT_HEADER."""
    name = NAMES[type(event)].rpartition(":")[2]
    line = (
        f"[{name:<22}] {printable(event.comm):<16} {event.tid:>8} [{event.cpu:03}] "
        f"{_seconds(event.time_ns):>18}"
    )
    details = _details(event)
    return f"{line}: {details}" if details else line


def set_lines(found: UpcallSet) -> list[str]:
    """One set: what is there of it, its events and its intervals."""
    letters = (
        ("U", found.dp_upcall),
        ("u", found.recv_upcall),
        ("p", found.flow_put),
        ("e", found.flow_execute),
        ("E", found.packet_cmd_execute),
    )
    present = "".join(letter if event else "-" for letter, event in letters)
    return [
        f"{present} batch {found.batch}: {_costs(costs_of(found))}",
        *(f"  {event_line(event)}" for event in found.events),
        *_flow_lines(found),
    ]


def _flow_lines(found: UpcallSet) -> list[str]:
    """Which flow is put, and its rules as far as they are known."""
    put = found.flow_put
    if put is None or not put.ufid:
        return []
    if not found.is_own_flow:
        return ["  flow not known: another upcall's key begins like this one's (--flow-key-size)"]
    return [f"  flow ufid:{put.ufid}", *(f"    {printable(rule)}" for rule in put.rules)]


def json_of(found: UpcallSet) -> Mapping[str, object]:
    """One set for JSON: which upcall it is, when its events were, and its intervals."""
    received, put = found.recv_upcall, found.flow_put
    flow = put if found.is_own_flow else None
    trip = {
        "dp_upcall": found.dp_upcall,
        "recv_upcall": received,
        "op_flow_put": put,
        "op_flow_execute": found.flow_execute,
        "packet_cmd_execute": found.packet_cmd_execute,
    }
    return {
        "tid": received.tid,
        "comm": received.comm,
        "cpu": received.cpu,
        "datapath": received.datapath,
        "in_port": datapath_port(received.key),
        "kind": received.kind,
        "packet_len": received.packet_len,
        "batch": found.batch,
        "ufid": (flow.ufid or None) if flow else None,
        "rules": flow.rules if flow else (),
        "times_ns": {name: event and event.time_ns for name, event in trip.items()},
        **structs.asdict(costs_of(found)),
    }


def render(
    joined: Joined,
    analysis: Analysis,
    missed: Mapping[str, int],
    buckets: int = DEFAULT_BUCKETS,
) -> str:
    """The whole report; `missed` counts events that were not recorded, by their type's tag."""
    lines = [*_received(joined, missed), ""]
    if not analysis.sets:
        return "\n".join([*lines, "No upcall was seen both sent and received: there is no cost."])
    lines += [f"- Analyzing {len(analysis.sets)} event sets...", ""]
    lines += ["=> Upcalls handled per thread:", *_threads(analysis), ""]
    lines += ["=> Histogram of upcalls per batch:", *_batches(analysis.batch_sizes)]
    for title, cost in (
        ("Kernel upcall action to vswitchd receive", analysis.kernel_to_vswitchd),
        ("vswitchd execute to kernel receive", analysis.execute_to_kernel),
        ("Upcall overhead (total time minus lookup)", analysis.overhead),
        ("Kernel upcall to kernel packet execute", analysis.total),
    ):
        lines += ["", f"=> {title} (microseconds):", *_statistics(cost, buckets)]
    return "\n".join(lines)


def _received(joined: Joined, missed: Mapping[str, int]) -> list[str]:
    lines = ["=> Events received per type (usable/total) [missed events]:"]
    for kind in EVENT_TYPES:
        tag = kind.__struct_config__.tag
        usable, total = joined.usable.get(kind, 0), joined.total.get(kind, 0)
        lines.append(
            f"  {NAMES[kind]:<40}: {usable:>10}/{total:>10} [{missed.get(str(tag), 0):>10}]"
        )
    if _missed_events(missed):
        lines.append("  Some events were missed: sets are incomplete, and fewer than the upcalls.")
    return lines


def _missed_events(missed: Mapping[str, int]) -> int:
    return sum(count for kind, count in missed.items() if kind not in RULES_LOST)


def _threads(analysis: Analysis) -> list[str]:
    names = Counter(comm for comm, _, _ in analysis.upcalls)
    return [
        f"  {_thread(comm, tid, names[comm]):<36}: {count:>10}"
        for comm, tid, count in analysis.upcalls
    ]


def _thread(comm: str, tid: int, namesakes: int) -> str:
    return printable(comm) if namesakes == 1 else f"{printable(comm)} ({tid})"


def _batches(sizes: tuple[int, ...]) -> list[str]:
    counts = Counter(sizes)
    scale = count_per_sign(list(counts.values()))
    width = len(str(max(counts.values())))
    lines = [
        f"# NumSamples = {len(sizes)}; Min = {min(sizes)}; Max = {max(sizes)}",
        f"# each {SIGN} stands for a count of {scale}",
    ]
    previous = min(sizes) - 1
    for size in sorted(counts):
        if size > previous + MAX_BATCH_GAP:
            lines.append("  ...")
        else:
            lines += [f"  {empty:>3} [{0:>{width}}]:" for empty in range(previous + 1, size)]
        lines.append(f"  {size:>3} [{counts[size]:>{width}}]: {bar(counts[size], scale)}".rstrip())
        previous = size
    return lines


def _statistics(cost: Statistics | None, buckets: int) -> list[str]:
    if cost is None:
        return ["# NumSamples = 0"]
    return [
        f"# NumSamples = {cost.count}; Min = {cost.min_ns / NS_PER_US:.2f}; "
        f"Max = {cost.max_ns / NS_PER_US:.2f}",
        f"# Mean = {cost.mean_ns / NS_PER_US:.6f}; "
        f"Variance = {cost.variance_ns2 / NS_PER_US**2:.6f}; "
        f"SD = {cost.deviation_ns / NS_PER_US:.6f}; Median {cost.median_ns / NS_PER_US:.6f}",
        *equal_width_lines(equal_width(cost.values_ns, buckets), NS_PER_US),
    ]


def _details(event: Event) -> str:
    match event:
        case DpUpcall():
            text = f"{printable(event.datapath):<17} {_port(event.in_port):>4} "
            text += f"{event.packet_len:>4} {event.linear_len:>4}"
            return f"{text} dropped, errno {event.error}" if event.error else text
        case RecvUpcall():
            port = _port(datapath_port(event.key))
            return f"{printable(event.datapath):<17} {port:>4} {event.packet_len:>4}"
        case FlowExecute():
            return f"{'':<17} {'':>4} {event.packet_len:>4}"
    return ""


def _port(number: int | None) -> str:
    return "-" if number is None else str(number)


def _costs(costs: Costs) -> str:
    intervals = (
        ("kernel to vswitchd", costs.kernel_to_vswitchd_ns),
        ("lookup", costs.lookup_ns),
        ("put to execute", costs.put_to_execute_ns),
        ("execute to kernel", costs.execute_to_kernel_ns),
        ("overhead", costs.overhead_ns),
        ("total", costs.total_ns),
    )
    return ", ".join(f"{name} {value} ns" for name, value in intervals if value is not None)


def _seconds(time_ns: int) -> str:
    return f"{time_ns // 10**9}.{time_ns % 10**9:09}"


class CostReport(Report[UpcallEvents]):
    """Keeps the events for the analysis, and prints each as it comes; then their costs."""

    LOST = RULES_LOST

    _page: "EventPage[CostsPage] | None"

    def __init__(
        self,
        outputs: Outputs,
        most: int,
        *,
        buckets: int,
        handlers: str | None,
        sets: bool,
    ) -> None:
        """Have none; at most `most` are analysed, if not fewer are asked for.

        `buckets` are those of each histogram. Of `handlers`, by their names, the upcalls are
        analysed, and with `sets` the events of each are printed.
        """
        super().__init__(outputs)
        self._asked = outputs.most is not None
        self._limit = outputs.most or most
        self._buckets, self._handler_names, self._sets = buckets, handlers, sets
        self._events: list[Event] = []

    def say(self, line: str) -> None:
        """Print a line, where there is text."""
        if self._text:
            print(line, flush=True)

    def begin(self) -> None:
        """Print what is above all events."""
        if self._lines:
            self.say(EVENT_HEADER)

    def take(self, record: UpcallEvents) -> UpcallEvents:
        """Keep and print, up to as many as are asked for."""
        before = len(self._events)
        self.take_all(record.events)
        if not self.has_enough:
            return record
        return UpcallEvents(tuple(self._events[before:]), record.since_epoch_ns)

    def take_all(self, events: Iterable[Event | PortName]) -> None:
        """The same with events that are in no record."""
        for event in events:
            if isinstance(event, PortName):
                continue
            self._events.append(event)
            if self._lines:
                print(event_line(event))
            if len(self._events) == self._limit:
                self.has_enough = True
                if not self._asked:
                    print_message(
                        f"stopped after {self._limit:,} events, the most that are analysed"
                    )
                return

    def finish(self, missed: Mapping[str, int]) -> None:
        """Join the events, and report what they cost."""
        self.say(f"- Analyzing results ({len(self._events)} events)...\n")
        joined = join(self._events, self._handlers())
        analysis = analyse(joined)
        if self._json is not None:
            for found in joined.sets:
                self._json(json_of(found))
        summary = render(joined, analysis, missed, self._buckets)
        self._print(joined, summary, missed)
        if self._page is not None:
            for found in analysis.sets:
                self._page.contents.add(found)
            # The summary's first table has what events were missed.
            self._page.finish(summary, self.missed_lines(missed))

    def _handlers(self) -> list[str] | None:
        """Whose upcalls are meant; names of none are printed, if there are others."""
        if self._handler_names is None:
            return None
        names: list[str] = self._handler_names.split(",")
        there = sorted({event.comm for event in self._events if isinstance(event, RecvUpcall)})
        if there and (strange := [repr(name) for name in names if name not in there]):
            print_message(
                f"no upcall was received by {', '.join(strange)}, but by {', '.join(there)}"
            )
        return names

    def _print(self, joined: Joined, summary: str, missed: Mapping[str, int]) -> None:
        if not self._text:
            if lost := _missed_events(missed):
                print_message(f"{lost:,} events were missed: upcalls lack events, or are not there")
            for line in self.missed_lines(missed):
                print_message(line)
            return
        if self._sets:
            for found in joined.sets:
                print("\n".join(set_lines(found)))
            print()
        print("\n".join([summary, *self.missed_lines(missed)]))
