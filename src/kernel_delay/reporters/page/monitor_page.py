"""What a monitor saw, as a page: charts over time, tables, and the summary."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct, structs

from kernel_delay.formatting import printable
from kernel_delay.model import RecordingHeader
from kernel_delay.reporters.json import ascii_json
from kernel_delay.reporters.page import document
from kernel_delay.reporters.page.charts import PageChart
from kernel_delay.reporters.page.contents import about
from kernel_delay.reporters.page.rows import PageTable


class PageEvents(Struct, frozen=True):
    """All that the page shows. `notes` are what must be known of how it was measured, or read."""

    title: str
    subject: str
    about: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    charts: tuple[PageChart, ...]
    summary: str
    tables: tuple[PageTable, ...]


class Contents(Protocol):
    """What a monitor's events come to."""

    subject: str
    """What the page is about, in a few words."""

    def charts(self) -> Sequence[PageChart]:
        """Over time; their times are CLOCK_MONOTONIC's."""

    def tables(self) -> Sequence[PageTable]:
        """What was longest, or last."""


def render(
    header: RecordingHeader | None,
    contents: Contents,
    summary: str,
    notes: Sequence[str],
) -> Iterator[str]:
    """The page, in pieces. `summary` is the text's."""
    target = header.target if header else None
    page = PageEvents(
        title=f"{printable(target.comm)} ({target.pid})" if target else contents.subject,
        subject=contents.subject,
        about=tuple(about(header, None)),
        notes=tuple(map(printable, notes)),
        charts=tuple(from_the_start(contents.charts())),
        summary=summary,
        tables=tuple(table for table in contents.tables() if table.rows),
    )
    return document("events", page.title, iter([ascii_json(page)]))


def from_the_start(charts: Sequence[PageChart]) -> Iterator[PageChart]:
    """Those with something to show, their times since the first of all."""
    drawn = [chart for chart in charts if chart.at_ns]
    start_ns = min((chart.at_ns[0] for chart in drawn), default=0)
    for chart in drawn:
        since_ns = tuple(at_ns - start_ns for at_ns in chart.at_ns)
        yield structs.replace(chart, at_ns=since_ns)
