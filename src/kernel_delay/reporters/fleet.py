"""What there is to say of a fleet, as text and for JSON."""

import datetime
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import length
from kernel_delay.fleet import Extent, FleetSurvey, LongRounds, Outlier, Peers
from kernel_delay.formatting import printable
from kernel_delay.reporters.grid import Column, Table, fitted
from kernel_delay.reporters.layout import Layout

MOST_ROWS = 10_000
"""Of each table, for a program or a page."""

FIRST_ROWS = 20
"""Of each table, for a person."""

MOST_EVIDENCE = 5

# In a pipe nothing is too wide.
_UNBOUNDED = 1 << 20

_POD_WIDTH = 8

CAUSES = {
    "kernel": "kernel",
    "irq": "interrupts",
    "ready": "no CPU",
    "throttled": "CPU quota",
    "frozen": "freezer",
    "stopped": "stopped",
    "lock": "locks",
    "steal": "hypervisor",
}
"""What a cause is called; others are rules of the verdict, and called as these."""


class Document(Struct, frozen=True):
    """What --json writes."""

    schema: Literal["kernel-delay-fleet/1"]
    survey: FleetSurvey


def document(survey: FleetSurvey) -> Document:
    """A survey for JSON."""
    return Document("kernel-delay-fleet/1", survey)


def lines(survey: FleetSurvey, layout: Layout, most: int = FIRST_ROWS) -> Iterator[str]:
    """The text, line by line: who differs from the others, then what all lose."""
    for text in (extent_text(survey.extent), outliers_text(survey)):
        yield from _ended(layout.comment(text))
    yield from _rows(outlier_table(survey.outliers[:most]), survey.all_outliers, layout)
    yield from _ended(_evidence(survey, layout, most))
    yield from _rows(peer_table(survey.peers[:most]), survey.all_peers, layout)
    yield from _rows(round_table(survey.long_rounds[:most]), survey.all_long_rounds, layout)


def extent_text(extent: Extent) -> str:
    """What was read, as a sentence."""
    if extent.first_ns is None or extent.last_ns is None:
        return "No windows were measured."
    pods = f", {_counted(extent.pods, 'pod')}" if extent.pods else ""
    rounds = f", {extent.rounds:,} of them long rounds" if extent.rounds else ""
    return (
        f"{_counted(extent.nodes, 'node')}{pods}: {_counted(extent.windows, 'window')} of"
        f" {_counted(extent.recordings, 'recording')}{rounds}, from {_minute(extent.first_ns)} to"
        f" {_minute(extent.last_ns)} UTC."
    )


def outliers_text(survey: FleetSurvey) -> str:
    """How many there are, as a sentence."""
    if not survey.all_peers:
        return "No thread was seen to lose time: there is nothing to compare with the fleet."
    if not survey.all_outliers:
        return "No node's threads lose much more than the fleet's median."
    nodes = len({outlier.node for outlier in survey.outliers})
    some = "" if len(survey.outliers) == survey.all_outliers else " at least"
    what = "place loses" if survey.all_outliers == 1 else "places lose"
    return (
        f"{survey.all_outliers:,} {what} much more than the fleet's median, on"
        f"{some} {_counted(nodes, 'node')}. Shares are in % of the threads' time."
    )


def outlier_table(outliers: tuple[Outlier, ...]) -> Table:
    """Who loses more than others, a row each."""
    return _table(
        "OUTLIERS",
        ("NODE", "POD", "THREADS", "LOST TO", "SHARE", "MEDIAN", "SCORE", "SINCE"),
        [
            (
                printable(each.node),
                pod_text(each.pod),
                threads_text(each),
                cause_text(each.cause),
                share_text(each.share),
                share_text(each.median_share),
                f"{each.score:,.1f}",
                since_text(each),
            )
            for each in outliers
        ],
    )


def peer_table(peers: tuple[Peers, ...]) -> Table:
    """What all lose, a row for each class of threads and cause."""
    return _table(
        "ALL",
        ("THREADS", "LOST TO", "PLACES", "MEDIAN", "MOST", "ON"),
        [
            (
                threads_text(each),
                cause_text(each.cause),
                f"{each.peers:,}",
                share_text(each.median_share),
                share_text(each.most_share),
                printable(each.most_node),
            )
            for each in peers
        ],
    )


def round_table(rounds: tuple[LongRounds, ...]) -> Table:
    """The long rounds, a row for each place and cause."""
    return _table(
        "LONG ROUNDS",
        ("NODE", "POD", "THREADS", "CAUSE", "ROUNDS", "IN ALL", "LONGEST", "LAST"),
        [
            (
                printable(each.node),
                pod_text(each.pod),
                threads_text(each),
                cause_text(each.cause),
                f"{each.rounds + each.suppressed:,}",
                length(each.total_ns),
                length(each.longest_ns),
                minute_text(each.last_ns),
            )
            for each in rounds
        ],
    )


def threads_text(each: Outlier | Peers | LongRounds) -> str:
    """Which threads: of which program, and how they are called there."""
    comm, threads = printable(each.comm), printable(each.thread_class)
    return comm if comm == threads else f"{comm}/{threads}"


def cause_text(cause: str) -> str:
    """A cause as a person calls it."""
    return CAUSES.get(cause, printable(cause))


def pod_text(pod: str) -> str:
    """The beginning of a pod's UID, which is enough to identify it; nothing for none."""
    return printable(pod[:_POD_WIDTH])


def share_text(share: float) -> str:
    """A share of the time, in percent without its sign."""
    return f"{100 * share:.1f}"


def since_text(outlier: Outlier) -> str:
    """When the first hour began in which it lost so much more than its peers."""
    return "" if outlier.since_ns is None else minute_text(outlier.since_ns)


def minute_text(unix_ns: int) -> str:
    """A minute of the year, in UTC."""
    return f"{_time(unix_ns):%m-%d %H:%M}"


def evidence_text(outlier: Outlier) -> str:
    """How often it was so, and what the verdict said of the worst window."""
    hours = f"in {outlier.over_hours:,} of {_counted(outlier.hours, 'hour')}"
    if outlier.evidence is None or outlier.recording is None:
        return f"{hours}."
    return f"{hours}; at worst: {printable(outlier.evidence)}"


def _evidence(survey: FleetSurvey, layout: Layout, most: int) -> Iterator[str]:
    for each in survey.outliers[: min(most, MOST_EVIDENCE)]:
        where = f"{printable(each.node)} {threads_text(each)}, {cause_text(each.cause)}"
        yield from layout.comment(f"{where}: {evidence_text(each)}")


def _rows(table: Table, all_of_them: int, layout: Layout) -> Iterator[str]:
    if not table.rows:
        return
    for heading, *rows in fitted(table, layout.width or _UNBOUNDED):
        yield f"\n{layout.heading(heading)}\n"
        yield from _ended(rows)
    more = all_of_them - len(table.rows)
    if more:
        yield from _ended(layout.comment(f"{_counted(more, 'more row')}: --top shows them."))


def _table(title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    """A table; columns that are empty throughout are left out, and texts begin at the left."""
    places = [
        place for place in range(len(headings)) if any(row[place] for row in rows) or not rows
    ]
    columns = tuple(Column(headings[place], left=headings[place] in _TEXTS) for place in places)
    return Table(title, columns, [tuple(row[place] for place in places) for row in rows])


_TEXTS = frozenset(("NODE", "POD", "THREADS", "LOST TO", "CAUSE", "ON"))


def _ended(texts: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"{text}\n" for text in texts)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _minute(unix_ns: int) -> str:
    return f"{_time(unix_ns):%Y-%m-%d %H:%M}"


def _time(unix_ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(unix_ns // 10**9, datetime.UTC)
