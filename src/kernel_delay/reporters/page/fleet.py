"""A fleet as a page: who differs from the others first, then what all lose."""

from collections.abc import Iterator

from msgspec import Struct

from kernel_delay.fleet import FleetSurvey, Outlier
from kernel_delay.formatting import printable
from kernel_delay.reporters.fleet import (
    cause_text,
    evidence_text,
    extent_text,
    outlier_table,
    outliers_text,
    peer_table,
    pod_text,
    round_table,
    share_text,
    since_text,
    threads_text,
)
from kernel_delay.reporters.json import ascii_json
from kernel_delay.reporters.page import document
from kernel_delay.reporters.page.rows import PageTable, table_of


class PageOutlier(Struct, frozen=True):
    """One who differs, as the text has it."""

    node: str
    pod: str
    threads: str
    cause: str
    share: str
    median: str
    score: str
    since: str
    evidence: str


class PageFleet(Struct, frozen=True):
    """All that the page shows."""

    title: str
    extent: str
    summary: str
    outliers: tuple[PageOutlier, ...]
    tables: tuple[PageTable, ...]


MOST_NAMED = 10
"""Outliers that are described in words, and not in the table alone."""


def render(survey: FleetSurvey) -> Iterator[str]:
    """The page, in pieces."""
    title = f"A fleet of {survey.extent.nodes:,} node{'' if survey.extent.nodes == 1 else 's'}"
    page = PageFleet(
        title=title,
        extent=extent_text(survey.extent),
        summary=outliers_text(survey),
        outliers=tuple(map(_outlier, survey.outliers[:MOST_NAMED])),
        tables=(
            table_of("outliers", "Outliers", outlier_table(survey.outliers), survey.all_outliers),
            table_of("peers", "What all lose", peer_table(survey.peers), survey.all_peers),
            table_of(
                "rounds", "Long rounds", round_table(survey.long_rounds), survey.all_long_rounds
            ),
        ),
    )
    return document("fleet", title, iter([ascii_json(page)]))


def _outlier(each: Outlier) -> PageOutlier:
    return PageOutlier(
        node=printable(each.node),
        pod=pod_text(each.pod),
        threads=threads_text(each),
        cause=cause_text(each.cause),
        share=share_text(each.share),
        median=share_text(each.median_share),
        score=f"{each.score:,.1f}",
        since=since_text(each),
        evidence=evidence_text(each),
    )
