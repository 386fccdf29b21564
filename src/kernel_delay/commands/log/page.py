"""The report of logs as a page: the verdict, the rounds over time, sums, and each round."""

from collections.abc import Iterator

from kernel_delay.commands.log.findings import CAUSES, commands, findings, texts
from kernel_delay.commands.log.rounds import LongRound
from kernel_delay.commands.log.survey import LogSurvey
from kernel_delay.commands.log.text import (
    extent_text,
    group_table,
    iteration_table,
    logged_text,
    loss_texts,
    thread_text,
    time_text,
    usage_text,
)
from kernel_delay.formatting import printable
from kernel_delay.reporters.json import ascii_json
from kernel_delay.reporters.page import document
from kernel_delay.reporters.page.charts import PageChart, Peaks
from kernel_delay.reporters.page.monitor_page import PageEvents, from_the_start
from kernel_delay.reporters.page.rows import MOST_ROWS, PageTable, table_of

_HEADINGS = (
    "ENDED (UTC)",
    "THREAD",
    "LENGTH MS",
    "USER MS",
    "SYSTEM MS",
    "OFF CPU MS",
    "CAUSE",
    "RESOURCE USAGE",
    "LOGGED MEANWHILE",
)
_TEXTS = (0, 1, 6, 7, 8)


def render(survey: LogSurvey) -> Iterator[str]:
    """Yield the page, in pieces."""
    found = list(findings(survey))
    summary = [*texts(found), *(f"next: {command}" for command in commands(found))]
    page = PageEvents(
        title="Long rounds in logs",
        subject=extent_text(survey),
        about=tuple(
            (printable(log.name), f"{log.lines:,} lines, {log.files:,} files")
            for log in survey.logs[:MOST_ROWS]
        ),
        notes=(*loss_texts(survey), *map(printable, survey.left_out[:MOST_ROWS])),
        charts=tuple(from_the_start([_chart(survey)])),
        summary="\n".join(summary),
        tables=tuple(
            table for table in (_groups(survey), _iterations(survey), _rounds(survey)) if table.rows
        ),
    )
    return document("events", page.title, iter([ascii_json(page)]))


def _chart(survey: LogSurvey) -> PageChart:
    peaks = Peaks()
    for each in survey.rounds:
        if each.time is not None:
            at_ns = int(each.time.timestamp() * 1000) * 1_000_000
            peaks.add(CAUSES[each.cause], at_ns, each.usage.length_ms)
    times = [each.time for each in survey.rounds if each.time is not None]
    since = f", since {time_text(min(times))} UTC" if times else ""
    return peaks.chart("lengths", f"Long rounds by cause{since}", "ms")


def _groups(survey: LogSurvey) -> PageTable:
    table = group_table(survey, MOST_ROWS)
    return table_of("threads", "By thread", table, len(survey.groups))


def _iterations(survey: LogSurvey) -> PageTable:
    table = iteration_table(survey, MOST_ROWS)
    title = "Suspicious iterations of PMD threads"
    return table_of("iterations", title, table, len(survey.iterations))


def _rounds(survey: LogSurvey) -> PageTable:
    rows = tuple(map(_row, survey.rounds))
    left_out = survey.all_rounds - sum(each.repeated for each in survey.rounds)
    return PageTable("rounds", "Each round", _HEADINGS, _TEXTS, rows, left_out)


def _row(each: LongRound) -> tuple[str, ...]:
    usage = each.usage
    return (
        "" if each.time is None else time_text(each.time, ms=True),
        thread_text(each),
        f"{usage.length_ms:,}",
        "" if usage.user_ms is None else f"{usage.user_ms:,}",
        "" if usage.system_ms is None else f"{usage.system_ms:,}",
        "" if usage.off_ms is None else f"{usage.off_ms:,}",
        CAUSES[each.cause],
        usage_text(each),
        " \u00b7 ".join(map(logged_text, each.logged)),
    )
