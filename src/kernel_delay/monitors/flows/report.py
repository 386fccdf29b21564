"""Lines for each event that is asked for, and at the end what they come to; or JSON."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from kernel_delay.errors import UsageError
from kernel_delay.formatting import NS_PER_MS, NS_PER_S, printable
from kernel_delay.monitors.flows.events import (
    REASONS,
    UNKNOWN_REASON,
    FlowChurn,
    FlowEvent,
    FlowEvents,
    match_text,
    reason_text,
)
from kernel_delay.monitors.monitor import RULES_LOST, Outputs, Report
from kernel_delay.openvswitch.flow_key import FlowFilter
from kernel_delay.reporters.histogram import bucket_lines

if TYPE_CHECKING:
    from kernel_delay.commands.options.pages import EventPage
    from kernel_delay.monitors.flows.page import FlowsPage


HEADER = f"{'TIME':>11} {'UFID':<36} {'EVENT':<6} {'REASON':<15} {'AGE s':>8}"
INDENT = " " * 4
TOO_EXPENSIVE = "too_expensive"

# should_revalidate() of ofproto/ofproto-dpif-upcall.c, Open vSwitch 2.17 to 4.0.
WHY_TOO_EXPENSIVE = (
    f"{TOO_EXPENSIVE}: fewer packets per second than min-revalidate-pps (5), while a round",
    "took half of max-revalidator (500 ms) or more: kernel-delay revalidator --slowest",
)
MOST_SHOWN = 5

# match_format() leaves this priority out (lib/match.c, Open vSwitch 2.17 to 4.0).
_DEFAULT_PRIORITY = 32768

# ofproto/ofproto.c:flow_stats_ds(): counters and time-outs stand between these.
_RULE = re.compile(
    r"(?:cookie=(?P<cookie>0x[0-9a-f]+), )?(?:table_id=(?P<table>\d+), )?"
    r".*?(?:priority=(?P<priority>\d+),?)?(?P<match>[^ ]*?),?actions=(?P<actions>.*)"
)


def event_lines(event: FlowEvent, *, match: bool, came_back: bool) -> list[str]:
    """One event, under HEADER; of a deletion and a change also what the flow was used for."""
    is_insert = event.change == "insert"
    reason = reason_text(event) if event.change == "delete" else "came back" if came_back else "-"
    age = "-" if is_insert else _seconds(event.age_ns)
    time_ms = event.time_ns // NS_PER_MS
    lines = [
        f"{f'{time_ms // 1000}.{time_ms % 1000:03}':>11} {event.ufid:<36} {event.change:<6} "
        f"{reason:<15} {age:>8}"
    ]
    if not is_insert and event.change != "keep":
        lines.append(f"{INDENT}{_use(event)}")
    if match:
        where = f"{printable(event.datapath)}, {printable(event.layer) or 'not in it yet'}"
        lines.append(f"{INDENT}{where}: {match_text(event)}")
    lines += [f"{INDENT}{printable(line)}" for rule in event.rules for line in _trace_lines(rule)]
    return lines


def _trace_lines(rule: str) -> Iterator[str]:
    """Yield the lines that `ofproto/trace` has of a rule, which ovn-detrace(1) reads."""
    found = _RULE.fullmatch(rule)
    if found is None:
        yield rule
        return
    cookie = f", cookie {found['cookie']}" if found["cookie"] else ""
    match = f"{found['match']}, " if found["match"] else ""
    table = int(found["table"] or 0)
    yield f"{table:2}. {match}priority {found['priority'] or _DEFAULT_PRIORITY}{cookie}"
    yield from (f"    {action}" for action in _split(found["actions"]))


def _split(actions: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    depth = began = 0
    for at, letter in enumerate(actions):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield actions[began:at]
            began = at + 1
    yield actions[began:]


def json_of(event: FlowEvent, *, came_back: bool) -> Mapping[str, object]:
    """The event for JSON: its match as text, and not in bytes."""
    left_out = {"key", "key_len", "mask", "mask_len"}
    fields = {name: value for name, value in structs.asdict(event).items() if name not in left_out}
    return {**fields, "match": match_text(event), "came_back": came_back}


def render(churn: FlowChurn, flows_before: int, passed_over: int) -> str:
    """The summary: how many came, changed and went, why, how old, and which came back."""
    changes = churn.changes
    lines = [
        f"{changes['insert']:,} flows made, {changes['delete']:,} deleted,"
        f" {changes['modify']:,} modified; {flows_before:,} were there before"
    ]
    if passed_over:
        lines.append(f"{passed_over:,} events of other flows or reasons are not among them")
    if churn.reasons:
        lines.append("deleted, by reason:")
        width = max(map(len, churn.reasons))
        lines += [f"  {name:<{width}} {n:>9,}" for name, n in churn.reasons.most_common()]
        if TOO_EXPENSIVE in churn.reasons:
            lines += [f"  {line}" for line in WHY_TOO_EXPENSIVE]
        lines.append("age when deleted, in ms:")
        lines += [f"  {line}" for line in bucket_lines(churn.lifetimes_ms.buckets())]
    if churn.came_back:
        lines.append(
            f"{churn.came_back:,} of those made had been deleted within the second before:"
        )
        lines += list(_returned(churn))
    return "\n".join(lines)


class CutEvents:
    """Events of which the key or the mask was captured in part."""

    def __init__(self) -> None:
        """Start before the first."""
        self._count = self._longest = 0

    def take(self, event: FlowEvent) -> None:
        """Count it if it is one; a key that is hidden was captured."""
        if event.is_cut and event.key:
            self._count += 1
            self._longest = max(self._longest, event.key_len, event.mask_len)

    def lines(self) -> list[str]:
        """How many there were, and how they are not cut."""
        if not self._count:
            return []
        events = "1 event has" if self._count == 1 else f"{self._count:,} events have"
        return [
            f"{events} a part of the key or mask only, and of the rest no filter knows:"
            f" -f {self._longest} takes all"
        ]


def _returned(churn: FlowChurn) -> Iterator[str]:
    ranked = sorted(churn.returned.items(), key=lambda item: (-item[1], item[0]))
    for ufid, times in ranked[:MOST_SHOWN]:
        yield f"  {ufid} {'once' if times == 1 else f'{times:,} times'}"
    if len(ranked) > MOST_SHOWN:
        yield f"  and {len(ranked) - MOST_SHOWN:,} more"


def _use(event: FlowEvent) -> str:
    where = "sweep" if event.in_sweep else "dump"
    who = f"in the {where}, by {printable(event.comm)} ({event.tid})"
    if event.used_ns is None:
        return f"{event.n_packets:,} packets, {who}"
    idle = _seconds(max(event.time_ns - event.used_ns, 0))
    return f"{event.n_packets:,} packets, {event.n_bytes:,} bytes, idle {idle} s, {who}"


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns / NS_PER_S:,.1f}"


LONGEST_REASON_NUMBER = 10
"""It has 32 bits."""


class FlowReport(Report[FlowEvents]):
    """What happens to flows."""

    _page: "EventPage[FlowsPage] | None"

    LOST = MappingProxyType(
        {
            "flow_events": "events were lost: a larger --buffer-page-count helps",
            "untracked": (
                "results of flows beyond those that are kept track of: new ones are not reported"
            ),
            "unknown_results": "results that are none of keep, delete and modify",
            **RULES_LOST,
        }
    )

    def __init__(
        self,
        outputs: Outputs,
        wanted: "Wanted",
        *,
        keys: bool,
    ) -> None:
        """Of the events that are wanted; with `keys` also what each flow matches."""
        super().__init__(outputs)
        self._wanted = wanted
        self._keys = keys
        self._churn = FlowChurn()
        self._cut = CutEvents()
        self._flows_before = self._passed_over = 0

    def take(self, record: FlowEvents) -> FlowEvents:
        """Count and print."""
        self._flows_before = record.flows_before
        for event in record.events:
            if self._wanted.has(event):
                self._put_out(event)
            else:
                self._passed_over += 1
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""
        summary = render(self._churn, self._flows_before, self._passed_over)
        self._sum_up(summary, [*self._cut.lines(), *self.missed_lines(missed)])

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


class Wanted(NamedTuple):
    """Which events are asked for: by the flow's match and UFID, and by a deletion's reasons."""

    filter: FlowFilter | None
    reasons: _Reasons | None
    ufid: str

    @classmethod
    def of(cls, flow: str | None, reasons: str | None, ufid: str | None) -> "Wanted":
        """As the options have it. Raises UsageError for a reason that there is not."""
        return cls(FlowFilter(flow) if flow else None, _reasons(reasons), ufid or "")

    def has(self, event: FlowEvent) -> bool:
        """Whether it is one of them."""
        if not event.ufid.startswith(self.ufid):
            return False
        if self.reasons is not None and not _is_deletion_for(self.reasons, event):
            return False
        return self.filter is None or self.filter.covers(event.key, event.mask, cut=event.is_cut)


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
