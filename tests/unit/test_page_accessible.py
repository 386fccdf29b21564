"""axe-core has nothing to object to: on each kind of page, wide and narrow, light and dark."""

import datetime
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, ViewportSize

from kernel_delay.commands.log.causes import Usage
from kernel_delay.commands.log.files import find
from kernel_delay.commands.log.page import render as render_log
from kernel_delay.commands.log.survey import survey
from kernel_delay.model import ChainPart, ChainThread, MeasuringCommand
from kernel_delay.reporters.page import render
from kernel_delay.reporters.page.flame_graph import FlameGraph
from kernel_delay.reporters.page.fleet import render as render_fleet
from tests.recordings import header
from tests.unit.fleet_samples import survey_of
from tests.unit.monitor_recordings import LOST
from tests.unit.page_samples import hostile_sample, sample_with_events, series_of
from tests.unit.pages import DRAWN, HEIGHT, Monitored, Open, comparison_page, page_of
from tests.unit.samples import bare_sample
from tests.unit.test_logs import of_usage, vlog, write
from tests.unit.test_page_layout import busy
from tests.unit.test_verdict_wait_chain import MS, SERVER, waiting
from tests.unit.timeline_samples import WITH_TIMELINE

pytestmark = pytest.mark.long

WIDTH = 1400
COLOURS = ["color-contrast", "link-in-text-block"]
"""Axe's rules that the colour scheme has a part in."""

LOOKS: tuple[tuple[int, Literal["light", "dark"], dict[str, Any]], ...] = (
    (WIDTH, "light", {}),
    (WIDTH, "dark", {"runOnly": COLOURS}),
    (900, "light", {"rules": {"color-contrast": {"enabled": False}}}),
    (420, "light", {"rules": {"color-contrast": {"enabled": False}}}),
)
"""Each layout, and each colour scheme, as colours are the same at each width.

With options of axe.run(): nothing else depends on the scheme, and contrast takes most of the time.
"""

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
"""axe-core itself, which the package has: its own module is not needed."""

FOUND = """async (options) => {
  const { violations } = await axe.run({ resultTypes: ["violations"], ...options });
  const why = ({ any, all, none }) => [...any, ...all, ...none].map(({ message }) => message);
  return violations.map(({ id, nodes }) => [id, ...nodes.slice(0, 3).map((node) =>
    `${node.html.slice(0, 160)}: ${why(node).join("; ").slice(0, 200)}`)]);
}"""

UNFOLD = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
}"""
"""What is folded is looked at too."""

ROOT = ChainThread(60, 60, "root")
CHAINS = (
    ChainPart((SERVER, ROOT), "throttled", 300 * MS, cgroup="/batch"),
    ChainPart((SERVER, ROOT), "running", 100 * MS),
    ChainPart((SERVER,), "stopped", 50 * MS),
    ChainPart((), "unknown", 40 * MS),
)

WORKERS = 2
"""As many threads as are opened. Axe examines each cell, and threads of one kind have the same."""
EVENTS = 30
"""So many that each kind of frame and of row is there."""

PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "one": lambda: render(header("capture"), [busy(EVENTS, WORKERS)]),
    "series": lambda: render(header("capture"), series_of(12, WORKERS)),
    "calls": lambda: page_of(sample_with_events(EVENTS, WORKERS)),
    "timeline": lambda: page_of(WITH_TIMELINE),
    "chains": lambda: page_of(bare_sample(waiting(*CHAINS))),
    "hostile": lambda: page_of(hostile_sample()),
    "nothing": lambda: page_of(),
    "worse": lambda: comparison_page(15_000),
    "better": lambda: comparison_page(6_000),
    "same": lambda: comparison_page(10_000),
    "fleet": lambda: render_fleet(survey_of(120)),
    "flame graph": lambda: flame_graph(),
}


def flame_graph() -> Iterator[str]:
    graph = FlameGraph()
    graph.add(sample_with_events(EVENTS, WORKERS))
    return graph.html()


def violations(page: Page) -> dict[str, Any]:
    """What axe-core says of each look of the page."""
    page.evaluate(AXE)
    found = {}
    for width, scheme, options in LOOKS:
        page.set_viewport_size(ViewportSize(width=width, height=HEIGHT))
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"innerWidth === {width}")
        page.evaluate(DRAWN)
        if said := page.evaluate(FOUND, options):
            found[f"{width} {scheme}"] = said
    return found


def test_no_width_has_colours_of_its_own() -> None:
    sheet = (files("kernel_delay.reporters.page") / "static" / "page.css").read_text()
    narrow = re.findall(r"^@media [^{]*max-width.*?^}", sheet, re.MULTILINE | re.DOTALL)
    assert len(narrow) == 2
    assert not re.search(r"color|background|fill|stroke|opacity|filter|shadow", "".join(narrow))


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation(open_page: Open, name: str) -> None:
    page = open_page(PAGES[name](), WIDTH)
    for thread in page.locator("tr.thread button").all()[:WORKERS]:
        thread.click()
    page.evaluate(UNFOLD)
    assert violations(page) == {}


@pytest.mark.parametrize("command", LOST)
def test_axe_finds_no_violation_in_a_monitor(
    open_page: Open, monitor_page: Monitored, command: MeasuringCommand
) -> None:
    assert violations(open_page(monitor_page(command, EVENTS), WIDTH)) == {}


def test_axe_finds_no_violation_in_a_log(open_page: Open, tmp_path: Path) -> None:
    lines = [vlog(-1, 1, "bridge", "a line"), *of_usage(Usage(2000, 1, 1), "main", number=2)]
    log = write(tmp_path / "ovs-vswitchd.log", lines)
    page = open_page(render_log(survey(find([str(log)]).logs, (), datetime.UTC)), WIDTH)
    assert violations(page) == {}


def test_a_table_that_scrolls_is_reached_by_the_keyboard(open_page: Open) -> None:
    """Also if it became too wide after the page was drawn."""
    page = open_page(PAGES["fleet"](), WIDTH)
    scroller = page.locator("#outliers .scroll")
    assert scroller.get_attribute("tabindex") is None
    page.locator("#outliers td").first.evaluate("e => e.style.paddingRight = '2000px'")
    page.locator("#outliers .scroll[tabindex='0']").wait_for()
    assert scroller.get_attribute("aria-label") == "Outliers"
