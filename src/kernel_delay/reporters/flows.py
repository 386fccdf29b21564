"""Changes of flows: a line each, the match and more below it; and what all came to."""

from collections.abc import Iterator, Mapping

from msgspec import structs

from kernel_delay.ovs.flow_key import format_match
from kernel_delay.ovs.flows import FlowChurn, FlowEvent, reason_text
from kernel_delay.printable import printable
from kernel_delay.reporters.histogram import bucket_lines

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000

HEADER = f"{'TIME':>11} {'UFID':<36} {'EVENT':<6} {'REASON':<15} {'AGE s':>8}"
INDENT = " " * 4
MOST_SHOWN = 5


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
    return lines


def match_text(event: FlowEvent) -> str:
    """What the flow matches, as far as it was captured."""
    text = format_match(event.key, event.mask, event.key_len)
    if len(event.mask) < event.mask_len:
        text += f",<{len(event.mask)} of the mask's {event.mask_len} bytes captured>"
    return printable(text)


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
        """Count it if it is one."""
        if event.is_cut:
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
