"""A line for each round as it ends, and at the end what they come to; or JSON."""

import textwrap
from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.analysis.histogram import Quantiles
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.formatting import NS_PER_MS, NS_PER_S, printable
from kernel_delay.monitors.monitor import Outputs, Report
from kernel_delay.monitors.revalidator.events import (
    LATE_NS,
    DatapathRounds,
    FlowCheck,
    FlowChecks,
    Revalidation,
    RevalidatorRound,
    RevalidatorRounds,
    SinceLast,
    limit_change,
)
from kernel_delay.reporters.terminal import has_columns, has_room_for_bars

if TYPE_CHECKING:
    from kernel_delay.commands.options.pages import EventPage
    from kernel_delay.monitors.revalidator.page import RoundsPage

UNKNOWN = "-"

HEADER = (
    f"{'TIME':>11} {'DP':>2} {'FLOWS':>7} {'REVALID':>7} {'DELETED':>7} {'LIMIT':>7} "
    f"{'ROUND ms':>8} {'RUN':>4} {'READY':>5} {'BLOCK':>5} {'WAIT ms':>7}"
)
POLL_HEADER = f"{HEADER} {'POLL ms':>7}"
_WIDTH = 80
BARS = "▁▂▃▄▅▆▇█"


def datapath_line(rounds: DatapathRounds, found: RevalidatorRound) -> str:
    """Which datapath a number in the column DP means, and who leads its revalidators."""
    return f"datapath {rounds.number}: {printable(rounds.datapath)}, led by {_leader(found)}"


def polled_round_line(rounds: DatapathRounds, found: RevalidatorRound) -> str:
    """One round, under POLL_HEADER."""
    return f"{round_line(rounds, found)} {found.poll_wait_ms:>7,}"


def round_line(rounds: DatapathRounds, found: RevalidatorRound) -> str:
    """One round, under HEADER; TIME is when it ended."""
    state, time = found.state, found.leader_time
    run = ready = blocked = UNKNOWN
    if time is not None and found.duration_ns:
        parts = (time.run_ns, time.runnable_ns, time.blocked_ns)
        run, ready, blocked = (f"{100 * part / found.duration_ns:.0f}%" for part in parts)
    seconds, rest_ns = divmod(found.stop_ns, NS_PER_S)
    return (
        f"{f'{seconds}.{rest_ns // NS_PER_MS:03}':>11} {rounds.number:>2} {found.n_flows:>7,} "
        f"{_count(found.revalidated):>7} {_count(found.deleted):>7} "
        f"{_count(None if state is None else state.flow_limit):>7} "
        f"{_ms(found.duration_ns):>8} {run:>4} {ready:>5} {blocked:>5} "
        f"{UNKNOWN if found.waited_ns is None else _ms(found.waited_ns):>7}"
    )


def remark_lines(found: RevalidatorRound, since: SinceLast) -> list[str]:
    """What Open vSwitch itself does about the round, and why, a line each."""
    remarks = []
    if found.state is not None and since.limit_set_from is not None:
        limits = f"from {since.limit_set_from:,} to {found.state.flow_limit_before:,}"
        remarks.append(f"limit set {limits} before it")
    if found.state is not None:
        limit = found.state.flow_limit_before
        if found.n_flows > 2 * limit:
            remarks.append(
                f"{found.n_flows:,} flows, limit {limit:,}:"
                " over twice as many, any goes until it is not"
            )
        elif found.n_flows > limit:
            remarks.append(
                f"{found.n_flows:,} flows, limit {limit:,}:"
                " none is added, idle ones go after 100 ms"
            )
    if (change := _change(found)) is not None:
        remarks.append(change)
    if since.late_ns is not None and since.late_ns > LATE_NS:
        remarks.append(f"started {_ms(since.late_ns)} ms later than due")
    return [f"  ! {remark}" for remark in remarks]


CHECK_HEADER = f"    {'CHECK ms':>8} {'READY ms':>8} {'UFID':<36} {'PACKETS':>9} RESULT"


def check_lines(checks: FlowChecks | None) -> list[str]:
    """How long a round's checks took, and the longest of them, a line each."""
    if checks is None or not checks.count:
        return []
    return [f"    {_total(checks)}:", CHECK_HEADER, *map(_check_line, checks.slowest)]


def _total(checks: FlowChecks) -> str:
    many = "1 check" if checks.count == 1 else f"{checks.count:,} checks"
    took = f"{many} against the OpenFlow tables took {_ms(checks.ns, 3)} ms"
    if checks.waited_ns is None:
        return took
    return f"{took}, {_ms(checks.waited_ns, 3)} of it ready"


def _check_line(check: FlowCheck) -> str:
    waited = UNKNOWN if check.waited_ns is None else _ms(check.waited_ns, 3)
    return (
        f"    {_ms(check.ns, 3):>8} {waited:>8} {printable(check.ufid):<36}"
        f" {check.n_packets:>9,} {check.result}"
    )


def sparkline(values: Iterable[int]) -> str:
    """A bar for each value, as high as it is of the largest."""
    known = list(values)
    most = max(known, default=0) or 1
    return "".join(BARS[value * (len(BARS) - 1) // most] for value in known)


def render(revalidation: Revalidation) -> str:
    """The summary: of each datapath its rounds, its flows, and its leader's time."""
    if not revalidation.rounds:
        return "no round was seen from its start to its end"
    blocks = [_summary(rounds) for rounds in revalidation.datapaths.values()]
    return "\n\n".join("\n".join(lines) for lines in blocks)


def _summary(rounds: DatapathRounds) -> list[str]:
    last = rounds.last
    assert last is not None
    span_ns = last.stop_ns - rounds.first_ns
    lines = [
        f"{printable(rounds.datapath)}: {rounds.rounds:,} round{'' if rounds.rounds == 1 else 's'}"
        f" in {span_ns / NS_PER_S:.3f} s,"
        f" led by {_leader(last)}",
        f"  {'':<14}{'p50':>12}{'p90':>12}{'p99':>12}{'max':>12}",
    ]
    rows = (
        ("round, ms", rounds.durations, True),
        ("wait, ms", rounds.waits, True),
        ("poll wait, ms", rounds.poll_waits, True),
        ("flows", rounds.flows, False),
        ("revalidated", rounds.revalidated, False),
    )
    lines += [_row(*row) for row in rows if row[1].count]
    lines += _results(rounds)
    shares = [(state, rounds.share(state)) for state in ("run", "runnable", "blocked")]
    if all(share is not None for _, share in shares):
        reported = ", ".join(f"{state} {float(share or 0):.1%}" for state, share in shares)
        lines.append(f"  leader's time in rounds: {reported}")
    lines += _limit(rounds, last)
    if rounds.checks.count:
        lines += [line.removeprefix("  ") for line in check_lines(rounds.checks)]
        lines.append(
            f"  ovs-appctl dpctl/get-flow {printable(rounds.datapath)} ufid:UFID shows one"
        )
    return lines


def _results(rounds: DatapathRounds) -> list[str]:
    lines = []
    for name, counts, counted in (
        ("dump", rounds.dumped, rounds.counted_dumped),
        ("sweep", rounds.swept, rounds.counted_swept),
    ):
        if counted:
            unknown = counts["other"]
            other = f", {unknown:,} of a result that is not known" if unknown else ""
            lines.append(
                f"  in the {name}: {counts['kept']:,} kept, {counts['modified']:,} modified,"
                f" {counts['deleted']:,} deleted{other}"
            )
    if rounds.removed is not None:
        lines.append(f"  in the sweep: {rounds.removed:,} removed")
    return lines


def _limit(rounds: DatapathRounds, last: RevalidatorRound) -> list[str]:
    if last.state is None:
        return ["  flow limit: this Open vSwitch keeps it where it is not looked for"]
    words = {
        "scaled": "divided as a dump took over 2 s",
        "reduced": "cut as a dump took over 1.3 s",
        "grew": "raised",
        "set": "set",
    }
    changes = [
        f"{words[change]} {_times(count)}" for change, count in sorted(rounds.changes.items())
    ]
    reported = f"  flow limit: {last.state.flow_limit:,}, {', '.join(changes) or 'unchanged'}"
    return [
        *textwrap.wrap(reported, _WIDTH, subsequent_indent="    "),
        f"  flows since its start: on average {last.state.avg_n_flows:,},"
        f" at most {last.state.max_n_flows:,}",
    ]


def _row(name: str, values: Quantiles, is_time: bool) -> str:
    quantiles = [values.quantile(Fraction(part, 100)) for part in (50, 90, 99)]
    found = [value for value in (*quantiles, values.max) if value is not None]
    cells = (_ms(value) if is_time else f"{value:,}" for value in found)
    return f"  {name:<14}{''.join(f'{cell:>12}' for cell in cells)}"


def _change(found: RevalidatorRound) -> str | None:
    state, change = found.state, limit_change(found)
    if state is None or change is None:
        return None
    limits = f"from {state.flow_limit_before:,} to {state.flow_limit:,}"
    took = f"the dump took {state.dump_duration_ms:,} ms"
    match change:
        case "scaled":
            return f"limit cut {limits}: {took}, over 2,000"
        case "reduced":
            return f"limit cut {limits}: {took}, over 1,300"
        case "grew":
            return None  # as it does in each round, until it is where it is configured
        case "set":
            return f"limit set {limits}, whatever the dump took"


def _leader(found: RevalidatorRound) -> str:
    return f"{printable(found.comm)} ({found.tid})"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _count(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


def _ms(duration_ns: int, digits: int = 1) -> str:
    return f"{duration_ns / NS_PER_MS:,.{digits}f}"


BARS_FROM = 105
"""Columns that a terminal must have for bars of the rounds' lengths beside the table."""


class _Table:
    """The rounds' lines, with what stdout has columns for beside the first 80."""

    def __init__(self) -> None:
        file = output_options.stdout()
        polled = has_columns(file, len(POLL_HEADER))
        self.header = POLL_HEADER if polled else HEADER
        self._line = polled_round_line if polled else round_line
        self._bars = has_room_for_bars(file, BARS_FROM)

    def line(self, rounds: DatapathRounds, found: RevalidatorRound) -> str:
        """A round that was taken."""
        bars = f" {sparkline(rounds.recent)}" if self._bars else ""
        return self._line(rounds, found) + bars


class RevalidatorReport(Report[RevalidatorRounds]):
    """Rounds of the revalidators."""

    _page: "EventPage[RoundsPage] | None"

    LOST = MappingProxyType(
        {
            "revalidator_rounds": (
                "rounds were lost: this process was kept from its CPU for too long"
            ),
            "flow_results": "flows were not counted: their probe was hit while its program ran",
            "flow_checks": (
                "checks of flows were not timed: a probe was hit while its program ran, or this"
                " process was kept from its CPU for too long"
            ),
        }
    )

    def __init__(
        self,
        outputs: Outputs,
        *,
        only_changes: bool,
    ) -> None:
        """Start before the first."""
        super().__init__(outputs)
        self._revalidation = Revalidation()
        self._only_changes = only_changes
        self._table = _Table() if self._lines else None

    def take(self, record: RevalidatorRounds) -> RevalidatorRounds:
        """Count and print, up to as many rounds as were asked for."""
        for count, found in enumerate(record.rounds, 1):
            self._take(found)
            if self._most is not None and self._revalidation.rounds >= self._most:
                self.has_enough = True
                return RevalidatorRounds(record.rounds[:count])
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""
        self._sum_up(render(self._revalidation), self.missed_lines(missed))

    def _take(self, found: RevalidatorRound) -> None:
        rounds = self._revalidation.of(found)
        before = rounds.last
        since = rounds.take(found)
        if self._json is not None:
            self._json(found)
        if not self._lines and self._page is None:
            return
        remarks = remark_lines(found, since)
        if self._page is not None:
            self._page.contents.add(rounds.datapath, found, remarks)
        if self._table is None:
            return
        self._print_below(self._table.header)
        if before is None or before.tid != found.tid:
            print(datapath_line(rounds, found))
        if self._only_changes and not remarks and before is not None and found.like(before):
            return
        print(self._table.line(rounds, found))
        for line in (*remarks, *check_lines(found.checks)):
            print(line)
