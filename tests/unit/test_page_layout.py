"""What of the page is on the first screen, and what is folded until it is asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page

from kernel_delay.model import Finding, Lost, RecordingHeader, Sample
from kernel_delay.reporters.page import render
from tests.recordings import header
from tests.unit.page_samples import THREADS, later, sample_with_events
from tests.unit.pages import HEIGHT, PHONE_WIDTH, Open, comparison_page, overflow, page_of

pytestmark = pytest.mark.long

DESK_WIDTH = 1400
FINDINGS = 12


def busy(count: int = 100, workers: int = THREADS, **changes: object) -> Sample:
    """A sample of which there is more to say than usual."""
    findings = tuple(finding(number) for number in range(FINDINGS))
    lost = Lost(missed_events=2)
    return sample_with_events(count, workers, verdict=findings, lost=lost, **changes)


def finding(number: int) -> Finding:
    evidence = {"ready_ns": 451_306_221, "tid": 101}
    text = f"worker{number} (100) had no CPU. Meanwhile another one had it. Give it a CPU."
    share = 0.9 - number / 20
    return Finding(
        f"rule_{number}",
        "limit",
        share,
        100,
        text,
        evidence=evidence,
        advice="Give it a CPU.",
        remark=number > 6,
    )


def bottom(page: Page, selector: str, place: int) -> float:
    box = page.locator(selector).nth(place).bounding_box()
    assert box is not None
    return box["y"] + box["height"]


@pytest.mark.parametrize("count", [1, 12])
def test_verdict_and_threads_are_on_the_first_screen(
    open_page: Open, pictures: Path, count: int
) -> None:
    samples = [later(busy(), number * 501_000_000) for number in range(count)]
    page = open_page(render(header("capture"), samples), DESK_WIDTH)
    assert bottom(page, ".findings > li", 0) < HEIGHT / 3
    assert bottom(page, "tr.thread", 2) <= HEIGHT
    page.screenshot(path=pictures / f"first-screen-{count}.png")


def test_metadata_comes_last(open_page: Open) -> None:
    page = open_page(render(header("capture"), [busy()]))
    assert page.locator("main > *").last.get_attribute("id") == "about"
    names = page.locator("#about dt").all_inner_texts()
    assert {"Process", "Command line", "Host", "Measured with", "Window"} <= set(names)
    assert "Linux 6.1.0" in page.locator(".measured").inner_text()
    assert "500.0 ms" in page.locator(".measured").inner_text()


def test_findings_after_the_first_open_on_demand(open_page: Open) -> None:
    page = open_page(page_of(busy()))
    first, second, *_ = page.locator("#verdict > .findings > li").all()
    assert "Meanwhile another one had it." in first.inner_text()
    assert "What to do: Give it a CPU." in first.inner_text()
    assert "worker1 (100) had no CPU." in second.inner_text()
    assert not second.get_by_text("Meanwhile").is_visible()
    second.locator("summary").first.click()
    assert second.get_by_text("Meanwhile").is_visible()
    assert second.get_by_text("What to do:").is_visible()
    assert second.locator(".text").all_inner_texts() == [
        "worker1 (100) had no CPU.",
        "Meanwhile another one had it.",
    ]


def test_findings_beyond_seven_are_counted_and_shown(open_page: Open) -> None:
    page = open_page(page_of(busy()), PHONE_WIDTH)
    more = page.locator("#verdict details.more")
    last = more.get_by_text(f"worker{FINDINGS - 1} (100) had no CPU.")
    assert more.locator("summary").first.inner_text() == "5 more"
    assert not last.is_visible()
    more.locator("summary").first.click()
    assert last.is_visible()
    assert overflow(page) <= 0


def test_on_paper_nothing_is_folded(open_page: Open) -> None:
    page = open_page(page_of(busy()))
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#verdict details:not([open], .evidence)").count() == 0
    assert page.get_by_text("Meanwhile another one had it.").count() == FINDINGS
    for each in page.get_by_text("Meanwhile another one had it.").all():
        assert each.is_visible()


def page_of_two(known: RecordingHeader) -> Iterator[str]:
    other = replace(known.target, pid=known.target.pid + 1)
    return render(replace(known, others=(other,)), [busy()])


def test_command_line_of_one_process_heads_no_page_of_two(open_page: Open) -> None:
    known = header("capture")
    assert open_page(render(known, [busy()])).locator(".command").count() == 1
    assert open_page(page_of_two(known)).locator(".command").count() == 0


@pytest.mark.parametrize("width", [DESK_WIDTH, 900, PHONE_WIDTH])
def test_tables_of_a_comparison_fit(open_page: Open, width: int) -> None:
    page = open_page(comparison_page(15_000), width)
    for scroller in page.locator("main .scroll").all():
        assert scroller.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    before, after = (each.bounding_box() for each in page.locator("#sides thead th").all())
    assert before is not None
    assert after is not None
    assert before["width"] == pytest.approx(after["width"], rel=0.1)


def test_threads_with_long_names_fit_on_a_phone(open_page: Open) -> None:
    """As those of several processes are called."""
    sample = busy()
    threads = tuple(replace(each, name=f"{each.name} of many (21330)") for each in sample.threads)
    page = open_page(page_of(replace(sample, threads=threads)), 420)
    ready = page.locator("tr.thread .c-ready").first.bounding_box()
    assert ready is not None
    assert ready["x"] + ready["width"] <= 420
