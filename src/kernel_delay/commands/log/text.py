"""The report of logs as text, and the document for JSON."""

from collections.abc import Iterator
from typing import Literal, get_args

from msgspec import Struct

from kernel_delay.analysis.verdict import formatting
from kernel_delay.commands.log.causes import Cause
from kernel_delay.commands.log.findings import (
    CAUSES,
    ITERATION_CAUSES,
    LogFinding,
    commands,
    counted,
    findings,
    length,
    texts,
    who,
)
from kernel_delay.commands.log.iterations import IterationCause, IterationGroup
from kernel_delay.commands.log.meanwhile import Logged
from kernel_delay.commands.log.rounds import LongRound
from kernel_delay.commands.log.survey import Group, LogSurvey, class_of
from kernel_delay.formatting import printable
from kernel_delay.model import WallClock
from kernel_delay.reporters.grid import Column, Table, fitted
from kernel_delay.reporters.layout import Layout

FIRST_ROWS = 20
"""Of each table, for a person."""

MOST_NAMED = 5
"""Losses of a kind that are named one by one."""

# In a pipe nothing is too wide.
_UNBOUNDED = 1 << 20

_TEXTS = frozenset(("THREADS", "THREAD", "REASON", "LOG"))


class Document(Struct, frozen=True):
    """What --json writes."""

    schema: Literal["kernel-delay-log/1"]
    findings: list[LogFinding]
    survey: LogSurvey


def document(survey: LogSurvey) -> Document:
    """Return a survey for JSON."""
    return Document("kernel-delay-log/1", list(findings(survey)), survey)


def lines(survey: LogSurvey, layout: Layout, most: int = FIRST_ROWS) -> Iterator[str]:
    """Yield the text: the extent, what is lost, the verdict, sums, and the longest rounds."""
    yield from _ended(layout.comment(extent_text(survey)))
    for text in loss_texts(survey):
        yield from _ended(layout.comment(f"WARNING: {text}", "warning"))
    found = list(findings(survey))
    for text in texts(found):
        yield from _ended(layout.comment(f"VERDICT: {text}", "verdict"))
    yield from (f"# NEXT: {command}\n" for command in commands(found))
    yield from _table(group_table(survey, most), layout, len(survey.groups))
    yield from _table(iteration_table(survey, most), layout, len(survey.iterations))
    yield from _rounds(survey, layout, most)


def extent_text(survey: LogSurvey) -> str:
    """Return what was read, as a sentence."""
    if not survey.logs:
        return "No line of Open vSwitch's or OVN's log was found."
    vlog_lines = sum(log.lines for log in survey.logs)
    logs = f"{counted(len(survey.logs), 'log')}, {counted(vlog_lines, 'line')}"
    times = [time for log in survey.logs for time in (log.first, log.last) if time is not None]
    span = f", {time_text(min(times))} to {time_text(max(times))} UTC" if times else ""
    found = "no unreasonably long poll interval"
    if survey.all_rounds:
        whole = length(sum(group.length_ms for group in survey.groups))
        found = f"{counted(survey.all_rounds, 'long round')}, {whole} in all"
    if survey.iterations:
        count = sum(group.iterations for group in survey.iterations)
        found += f"; {counted(count, 'suspicious iteration')} of PMD threads"
    return f"{logs}{span}: {found}."


def loss_texts(survey: LogSurvey) -> Iterator[str]:
    """Yield what is known not to be in the logs, or was not read."""
    dropped: dict[str, int] = {}
    for log in survey.logs:
        for module, count in log.losses.dropped.items():
            dropped[module] = dropped.get(module, 0) + count
    if dropped:
        worst = sorted(dropped, key=lambda module: -dropped[module])[:MOST_NAMED]
        named = ", ".join(f"{printable(module)} {dropped[module]:,}" for module in worst)
        total = sum(dropped.values())
        yield f"vlog's rate limit dropped {counted(total, 'line')}: {named}."
    if missing := sum(log.missing for log in survey.logs):
        yield f"{counted(missing, 'line')} missing by their numbers: lost, or cut out."
    unread = sum(log.losses.unread for log in survey.logs)
    if unread:
        yield f"{counted(unread, 'line')} of long rounds in a form that is not known."
    if without_zone := sum(log.losses.without_zone for log in survey.logs):
        yield f"the times of {counted(without_zone, 'line')} say no zone: see --timezone."
    if survey.duplicates:
        rounds = counted(survey.duplicates, "round")
        yield f"{rounds} logged twice, as in a journal too, and counted once."
    if survey.cut_lines:
        yield f"{counted(survey.cut_lines, 'line')} too long to be read whole."
    if len(survey.rounds) < survey.all_rounds:
        yield f"only the {len(survey.rounds):,} longest rounds are kept one by one."


def group_table(survey: LogSurvey, most: int) -> Table:
    """Return the classes of threads, a row each, with how many rounds each cause has."""
    causes: list[Cause] = [
        cause for cause in get_args(Cause) if any(cause in group.causes for group in survey.groups)
    ]
    headings = ["THREADS", "ROUNDS", *(CAUSES[cause].upper() for cause in causes)]
    headings += ["IN ALL", "LONGEST", "HOURS", "FIRST", "LAST"]
    several = len({group.log for group in survey.groups}) > 1
    rows = [_group_row(group, causes) for group in survey.groups[:most]]
    if several:
        headings.append("LOG")
        rows = [
            (*row, printable(group.log)) for row, group in zip(rows, survey.groups, strict=False)
        ]
    columns = tuple(Column(heading, left=heading in _TEXTS) for heading in headings)
    return Table("LONG ROUNDS", columns, rows)


def _group_row(group: Group, causes: list[Cause]) -> tuple[str, ...]:
    return (
        who(group.program, group.threads),
        f"{group.rounds:,}",
        *(f"{group.causes.get(cause, 0):,}" for cause in causes),
        length(group.length_ms),
        length(group.longest_ms),
        f"{group.hours:,}",
        "" if group.first is None else f"{group.first:%m-%d %H:%M}",
        "" if group.last is None else f"{group.last:%m-%d %H:%M}",
    )


def iteration_table(survey: LogSurvey, most: int) -> Table:
    """Return the suspicious iterations, a row for each PMD thread and reason."""
    groups = survey.iterations[:most]
    causes: list[IterationCause] = [
        cause
        for cause in get_args(IterationCause)
        if any(cause in group.causes for group in survey.iterations)
    ]
    headings = ["THREAD", "REASON", "ITERATIONS"]
    headings += [ITERATION_CAUSES[cause].upper() for cause in causes]
    headings += ["IN ALL", "LONGEST", "CYCLES", "PACKETS", "UPCALLS", "FIRST", "LAST"]
    rows = [_iteration_row(group, causes) for group in groups]
    if len({group.log for group in survey.iterations}) > 1:
        headings.append("LOG")
        rows = [(*row, printable(group.log)) for row, group in zip(rows, groups, strict=True)]
    columns = tuple(Column(heading, left=heading in _TEXTS) for heading in headings)
    return Table("PMD", columns, rows)


def _iteration_row(group: IterationGroup, causes: list[IterationCause]) -> tuple[str, ...]:
    longest = group.longest
    of_longest = (longest.cycles, longest.packets, longest.upcalls)
    return (
        who(group.program, group.thread),
        printable(group.reason),
        f"{group.iterations:,}",
        *(f"{group.causes.get(cause, 0):,}" for cause in causes),
        formatting.length(1000 * group.length_us),
        formatting.length(1000 * longest.length_us),
        *("" if count is None else f"{count:,}" for count in of_longest),
        "" if group.first is None else f"{group.first:%m-%d %H:%M}",
        "" if group.last is None else f"{group.last:%m-%d %H:%M}",
    )


def _rounds(survey: LogSurvey, layout: Layout, most: int) -> Iterator[str]:
    if not survey.rounds:
        return
    longest = sorted(survey.rounds, key=lambda each: -each.usage.length_ms)[:most]
    shown = {id(each) for each in longest}
    what = (
        "LONG ROUNDS, IN ORDER" if len(shown) == survey.all_rounds else f"THE {len(shown)} LONGEST"
    )
    yield f"\n{layout.heading(what)}\n"
    for each in survey.rounds:
        if id(each) in shown:
            yield from _ended(layout.wrapped(round_text(each), "", "    "))
            yield from _ended(layout.wrapped(usage_text(each), "    ", "    "))
            for logged in each.logged:
                yield from _ended(layout.wrapped(logged_text(logged), "    ", "      "))


def round_text(each: LongRound) -> str:
    """Return a round as a line: when, whose, how long, and its cause."""
    time = "at no known time" if each.time is None else time_text(each.time, ms=True)
    repeated = f" (x{each.repeated:,})" if each.repeated > 1 else ""
    return (
        f"{time}  {thread_text(each)}  {each.usage.length_ms:,} ms{repeated}: {CAUSES[each.cause]}"
    )


def thread_text(each: LongRound) -> str:
    """Return whose round it is."""
    return who(each.program, each.thread or class_of(each.thread))


def usage_text(each: LongRound) -> str:
    """Return the resource usage of a round, as far as the log has it."""
    usage = each.usage
    if usage.user_ms is None or usage.system_ms is None:
        return "no resource usage"
    parts = [f"user {usage.user_ms:,} ms", f"system {usage.system_ms:,} ms"]
    if usage.off_ms is None:
        parts.append("which can't be of one thread")
    else:
        parts.append(f"off the CPU {usage.off_ms:,} ms")
    if usage.minor_faults or usage.major_faults:
        parts.append(f"faults {usage.minor_faults:,} minor, {usage.major_faults or 0:,} major")
    if usage.blocks_read or usage.blocks_written:
        read_kib, written_kib = (usage.blocks_read or 0) / 2, (usage.blocks_written or 0) / 2
        parts.append(f"disk {read_kib:,.0f} KiB read, {written_kib:,.0f} KiB written")
    if usage.voluntary is None:
        parts.append("context switches not known")
    else:
        parts.append(
            f"context switches {usage.voluntary:,} voluntary, {usage.involuntary or 0:,}"
            " involuntary"
        )
    if each.together:
        parts.append(f"{counted(each.together, 'other thread')} long at that time")
    return "; ".join(parts)


def logged_text(logged: Logged) -> str:
    """Return a line that was logged in a round."""
    thread = f"({logged.thread})" if logged.thread else ""
    ms = logged.time.microsecond // 1000
    where = printable(logged.module + thread)
    return f"{logged.time:%H:%M:%S}.{ms:03} {where}: {printable(logged.message)}"


def time_text(time: WallClock, *, ms: bool = False) -> str:
    """Return a time of UTC to the second, or to the millisecond."""
    text = f"{time:%Y-%m-%d %H:%M:%S}"
    return f"{text}.{time.microsecond // 1000:03}" if ms else text


def _table(table: Table, layout: Layout, all_rows: int) -> Iterator[str]:
    if not table.rows:
        return
    for heading, *rows in fitted(table, layout.width or _UNBOUNDED):
        yield f"\n{layout.heading(heading)}\n"
        yield from _ended(iter(rows))
    if (more := all_rows - len(table.rows)) > 0:
        yield from _ended(layout.comment(f"{more:,} more rows: --top shows them."))


def _ended(texts: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"{text}\n" for text in texts)
