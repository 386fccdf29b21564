"""Times of one table have one unit, and each its nanoseconds on hovering."""

import re

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator

from kernel_delay.model import Histogram, Sample, SyscallStats
from tests.unit.page_samples import sample_with_events
from tests.unit.pages import Open, comparison_page, page_of
from tests.unit.samples import bare_sample, timed_thread

pytestmark = pytest.mark.long

UNIT = re.compile(r"\b(ns|µs|ms|s)\b")
EXACT = re.compile(r"[\d,]+ ns(, of which .*)?")


def call(number: int, count: int, total_ns: int, max_ns: int) -> SyscallStats:
    histogram: Histogram = (0,) * (max_ns.bit_length() - 1) + (count,)
    return SyscallStats(number, f"call{number}", count, total_ns, max_ns, histogram=histogram)


def calling(*calls: SyscallStats) -> Sample:
    return bare_sample(replace(timed_thread(27090, "main"), syscalls=calls))


def card(open_page: Open, sample: Sample, title: str) -> Locator:
    page = open_page(page_of(sample))
    page.locator("tr.thread button").first.click()
    return page.locator("tr.details .card").filter(has_text=title)


@pytest.mark.parametrize(
    ("calls", "heading", "totals"),
    [
        ([call(1, 2, 450_000_000, 300_000_000)], "Total ms", ["450.0"]),
        # The short ones would be 0.000 ms.
        (
            [call(1, 1, 450_000_000, 450_000_000), call(2, 9, 1_530, 180)],
            "Total µs",
            ["450,000.000", "1.530"],
        ),
        ([call(1, 3, 2_040, 900)], "Total µs", ["2.040"]),
        # Two steps below the longest at most.
        (
            [call(1, 1, 9_800_000_000, 9_800_000_000), call(2, 9, 1_530, 180)],
            "Total µs",
            ["9,800,000.000", "1.530"],
        ),
    ],
)
def test_calls_have_one_unit(
    open_page: Open, calls: list[SyscallStats], heading: str, totals: list[str]
) -> None:
    table = card(open_page, calling(*calls), "System calls")
    headings = table.locator("thead th").all_inner_texts()
    assert [each for each in headings if UNIT.search(each)] == [heading]
    column = headings.index(heading)
    rows = table.locator("tbody tr").all()
    assert [row.locator("th, td").nth(column).inner_text() for row in rows] == totals


def test_tables_of_a_thread_have_exact_times(open_page: Open) -> None:
    page = open_page(page_of(sample_with_events(10)))
    page.locator("tr.thread button").first.click()
    for table in page.locator("tr.details .card table").all():
        headings = table.locator("thead th").all_inner_texts()
        assert len([each for each in headings if UNIT.search(each)]) == 1, headings
        titles = table.locator("td.number[title]").evaluate_all("all => all.map(e => e.title)")
        assert titles
        assert all(EXACT.fullmatch(title) for title in titles), titles


def test_figures_of_a_comparison_have_one_unit(open_page: Open) -> None:
    page = open_page(comparison_page(15_000))
    page.get_by_label("Which figures").select_option(label="All figures")
    lengths = page.locator("#figures td[title$=' ns']")
    units = {text.split()[-1] for text in lengths.all_inner_texts()}
    assert len(units) == 1
    assert lengths.count() % 2 == 0
    assert lengths.count() > 4


def test_a_named_change_has_one_unit(open_page: Open) -> None:
    page = open_page(comparison_page(15_000))
    text = page.locator("#changes .change .text").first.inner_text()
    assert re.fullmatch(r"[\d.,]+ (µs|ms), was [\d.,]+ \1", text), text
