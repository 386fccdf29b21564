"""Lines for each operation that is asked for, and at the end what they come to; or JSON."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from kernel_delay.analysis.histogram import Quantiles
from kernel_delay.errors import UsageError
from kernel_delay.formatting import NS_PER_MS, NS_PER_S, printable
from kernel_delay.host.errnos import ERRORS
from kernel_delay.monitors.datapath_ops.actions import format_actions
from kernel_delay.monitors.datapath_ops.events import (
    OPERATIONS,
    Operation,
    OperationEvent,
    OperationEvents,
    answer,
)
from kernel_delay.monitors.datapath_ops.message import (
    Reply,
    Request,
    flow_match,
    packet_headers,
    packet_text,
    read_reply,
    read_request,
)
from kernel_delay.monitors.monitor import Outputs, Report
from kernel_delay.openvswitch.flow_key import FlowFilter, datapath_port
from kernel_delay.openvswitch.packets import hex_lines, packet_decoder

if TYPE_CHECKING:
    from kernel_delay.commands.options.pages import EventPage
    from kernel_delay.monitors.datapath_ops.page import OperationsPage

INDENT = " " * 4

HEADER = f"{'TIME':>15} {'COMM':<15} {'PID':>7} {'OPERATION':<14} {'ANSWER':<10} {'KERNEL us':>9}"


def event_lines(event: OperationEvent, request: Request) -> list[str]:
    """One operation, under HEADER, and what it asked for; TIME is that of the answer."""
    seconds, rest_ns = divmod(event.time_ns, NS_PER_S)
    return [
        f"{f'{seconds}.{rest_ns // 1000:06}':>15} {printable(event.comm):<15} {event.tid:>7} "
        f"{event.operation:<14} {answer(event):<10} {_us(event.duration_ns):>9}",
        *(f"{INDENT}{line}" for line in request_lines(event, request)),
    ]


def request_lines(event: OperationEvent, request: Request) -> Iterator[str]:
    """What was asked: of which datapath, which flow, what it matches, and what is to be done."""
    words = [f"datapath {request.dp_ifindex}"]
    words += [request.flags] if request.flags != "0" else []
    words += [f"ufid {request.ufid}"] if request.ufid is not None else []
    yield printable(", ".join([*words, *request.others]))
    if (match := flow_match(request)) is not None:
        yield f"match: {match}"
    if request.actions is not None:
        yield f"actions: {printable(format_actions(request.actions))}"
    if request.packet is not None:
        headers = packet_text(request)
        yield f"packet of {len(request.packet):,} bytes: {headers}"
    if request.problem is not None:
        yield f"<{request.problem}>"
    reply = read_reply(event.reply, event.reply_len)
    if reply is not None:
        yield from _reply_lines(reply, event.time_ns)


def _reply_lines(reply: Reply, time_ns: int) -> Iterator[str]:
    """What came back beside the answer: first the counts, as dpctl/dump-flows writes them."""
    words = [f"ufid {reply.ufid}"] if reply.ufid is not None else []
    yield printable(", ".join(["sent back", *words, counts_text(reply, time_ns), *reply.others]))
    if (match := flow_match(reply)) is not None:
        yield f"{INDENT}match: {match}"
    if reply.actions is not None:
        yield f"{INDENT}actions: {printable(format_actions(reply.actions))}"
    if reply.problem is not None:
        yield f"{INDENT}<{reply.problem}>"


def counts_text(reply: Reply, time_ns: int) -> str:
    """`packets:2, bytes:120, used:0.100s, flags:S.`, of what had hit the flow at `time_ns`.

    As dpif_flow_stats_format() of Open vSwitch 3.5 writes it: a flow without counts has none.
    """
    packets, size = reply.counts or (0, 0)
    used = "never"
    if reply.used_ms is not None:
        used = f"{max(time_ns // NS_PER_MS - reply.used_ms, 0) / 1000:.3f}s"
    seen = "".join(letter for bit, letter in _TCP_FLAGS if (reply.tcp_flags or 0) & bit)
    return f"packets:{packets}, bytes:{size}, used:{used}" + (f", flags:{seen}" if seen else "")


# In the order of Open vSwitch's packet_format_tcp_flags().
_TCP_FLAGS = ((2, "S"), (1, "F"), (8, "P"), (4, "R"), (32, "U"), (16, "."), (64, "E"), (128, "C"))


def json_of(event: OperationEvent, request: Request) -> Mapping[str, object]:
    """The operation for JSON: what was asked as text, and not in bytes."""
    left_out = ("message", "reply", "reply_len")
    fields = {name: value for name, value in structs.asdict(event).items() if name not in left_out}
    actions = None if request.actions is None else format_actions(request.actions)
    return {
        **fields,
        "answer": answer(event),
        "dp_ifindex": request.dp_ifindex,
        "flags": request.flags,
        "sequence": request.sequence,
        "ufid": request.ufid,
        "match": flow_match(request),
        "actions": actions,
        "packet_len": None if request.packet is None else len(request.packet),
        "packet": None if request.packet is None else packet_text(request),
        "others": list(request.others),
        "problem": request.problem,
        "reply": _json_of_reply(read_reply(event.reply, event.reply_len), event.time_ns),
    }


def _json_of_reply(reply: Reply | None, time_ns: int) -> Mapping[str, object] | None:
    if reply is None:
        return None
    packets, size = reply.counts or (0, 0)
    used_ms = reply.used_ms
    return {
        "ufid": reply.ufid,
        "match": flow_match(reply),
        "actions": None if reply.actions is None else format_actions(reply.actions),
        "packets": packets,
        "bytes": size,
        "idle_ms": None if used_ms is None else max(time_ns // NS_PER_MS - used_ms, 0),
        "tcp_flags": reply.tcp_flags or 0,
        "others": list(reply.others),
        "problem": reply.problem,
    }


class Summary:
    """How many operations there were, how they were answered, and what they took."""

    def __init__(self) -> None:
        """Start before the first."""
        self._answers: dict[Operation, Counter[str]] = defaultdict(Counter)
        self._durations: dict[Operation, Quantiles] = defaultdict(Quantiles)

    def take(self, event: OperationEvent) -> None:
        """Count one."""
        self._answers[event.operation][answer(event)] += 1
        if event.duration_ns is not None:
            self._durations[event.operation].add(event.duration_ns)

    def render(self, passed_over: int) -> str:
        """A line for each kind of operation, and one for the errors of each."""
        lines = [f"{'':<14}{'count':>9}{'failed':>9}{'p50 us':>10}{'p99 us':>10}{'max us':>10}"]
        for operation in OPERATIONS:
            if operation in self._answers:
                lines += self._lines(operation)
        if len(lines) == 1:
            lines = ["no operation was seen"]
        if passed_over:
            lines.append(f"{passed_over:,} operations that were not asked for are not among them")
        return "\n".join(lines)

    def _lines(self, operation: Operation) -> list[str]:
        answers, took = self._answers[operation], self._durations[operation]
        failed = answers.total() - answers["ok"]
        quantiles = [took.quantile(Fraction(part, 100)) for part in (50, 99)]
        cells = "".join(f"{_us(value):>10}" for value in (*quantiles, took.max))
        lines = [f"{operation:<14}{answers.total():>9,}{failed:>9,}{cells}"]
        errors = [(name, count) for name, count in answers.most_common() if name != "ok"]
        lines += [f"  {name} {count:,} ({_words(name)})" for name, count in errors if count]
        return lines


def _us(duration_ns: int | None) -> str:
    return "-" if duration_ns is None else f"{duration_ns / 1000:,.1f}"


def _words(name: str) -> str:
    return dict(ERRORS.values()).get(name, "unknown")


PACKET_INDENT = " " * 8


class OperationReport(Report[OperationEvents]):
    """Operations of the kernel's datapath."""

    _page: "EventPage[OperationsPage] | None"

    LOST = MappingProxyType(
        {
            "operations": "operations were lost: a larger --buffer-page-count helps",
            "replies": "messages that were sent back were lost: a larger --buffer-page-count helps",
        }
    )

    def __init__(
        self,
        outputs: Outputs,
        wanted: "Wanted",
        *,
        message: str,
        packet: str,
    ) -> None:
        """Of the operations that are wanted; `message` and `packet` say how these are shown."""
        super().__init__(outputs)
        self._wanted = wanted
        self._message = message
        self._decode = _decoder(packet)
        self._summary = Summary()
        self._passed_over = 0

    def take(self, record: OperationEvents) -> OperationEvents:
        """Count and print."""
        for event in record.events:
            request = read_request(event.operation, event.message, event.message_len)
            if not self._wanted.has(event, request):
                self._passed_over += 1
                continue
            self._put_out(event, request)
            if self._packets is not None and request.packet is not None:
                self._write_packet(event, request, record.since_epoch_ns)
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""
        self._sum_up(self._summary.render(self._passed_over), self.missed_lines(missed))

    def _put_out(self, event: OperationEvent, request: Request) -> None:
        self._summary.take(event)
        if self._json is not None:
            self._json(json_of(event, request))
        if self._page is not None:
            self._page.contents.add(event, request)
        if not self._lines:
            return
        first, *asked = event_lines(event, request)
        packet = self._decode(request.packet) if request.packet else ()
        lines = [*self._asked(event, asked), *(PACKET_INDENT + line for line in packet)]
        self._print_below(HEADER, first, *lines)

    def _asked(self, event: OperationEvent, decoded: Sequence[str]) -> Sequence[str]:
        """What is shown of the message: `decoded` if it is to be."""
        match self._message:
            case "nlraw":
                return decoded
            case "hex":
                return [PACKET_INDENT + line for line in hex_lines(event.message)]
        return ()

    def _write_packet(self, event: OperationEvent, request: Request, since_epoch_ns: int) -> None:
        assert self._packets is not None
        assert request.packet is not None
        port = datapath_port(request.key or b"")
        self._packets.write_packet(
            event.time_ns + since_epoch_ns,
            "no port" if port is None else f"port {port}",
            request.packet,
            len(request.packet),
            [" ".join(line.split()) for line in event_lines(event, request)],
        )


def _decoder(form: str) -> Callable[[bytes], Sequence[str]]:
    """What shows a packet's lines."""
    match form:
        case "hex":
            return hex_lines
        case "decode":
            return packet_decoder()
    return lambda packet: ()


class Wanted(NamedTuple):
    """Which operations are asked for: by the flow, by their names, and by the answer."""

    filter: FlowFilter | None
    ufid: str
    operations: frozenset[str] | None
    answer: str

    @classmethod
    def of(
        cls,
        flow: str | None,
        ufid: str | None,
        operations: frozenset[str] | None,
        answer: str,
    ) -> "Wanted":
        """As the options have it. Raises UsageError for a flow that can't be."""
        return cls(FlowFilter(flow) if flow else None, ufid or "", operations, answer)

    def has(self, event: OperationEvent, request: Request) -> bool:
        """Whether it is one of them."""
        if self.operations is not None and event.operation not in self.operations:
            return False
        if self.answer != "any" and (self.answer == "ok") != (event.error == 0):
            return False
        if self.ufid and not (request.ufid or "").startswith(self.ufid):
            return False
        if self.filter is None:
            return True
        key = request.key or b""
        if request.packet is not None:
            key += packet_headers(request)
        return bool(key) and self.filter.covers(key, request.mask or b"", cut=event.is_cut)


def wanted_operations(
    names: str | None, traced: Sequence[Sequence[Operation]] | None
) -> frozenset[str] | None:
    """Those that are asked for, None for all; UsageError for one that there is not."""
    if names is None and traced is None:
        return None
    wanted = frozenset[str](chain.from_iterable(traced or ()))
    wanted |= {name.strip().lower() for name in (names or "").split(",") if names is not None}
    unknown = sorted(wanted - {*OPERATIONS})
    if unknown:
        raise UsageError(
            f"there is no operation {unknown[0]!r}; there are: {', '.join(OPERATIONS)}"
        )
    return wanted
