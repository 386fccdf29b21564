"""Pages for the tests that open them, and what these ask of a page."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec.structs import replace
from playwright.sync_api import ConsoleMessage, Error, Page, Request, ViewportSize

from kernel_delay.analysis.comparison import compare
from kernel_delay.analysis.figures import Figures
from kernel_delay.model import Sample
from kernel_delay.reporters.comparison_sides import Side
from kernel_delay.reporters.page import render
from kernel_delay.reporters.page.comparison import render as render_comparison
from tests.recordings import header
from tests.unit.test_comparison import sample
from tests.workload import HANGS_S

WIDTH, HEIGHT = 1280, 900
PATIENCE_MS = 1000 * HANGS_S
PHONE_WIDTH, NARROW_WIDTH = 390, 800

DRAWN = """() => new Promise((drawn) =>
  requestAnimationFrame(() => requestAnimationFrame(drawn)))"""
"""Waits until the page knows its width, and has drawn by it: both are in the first frame."""

Open = Callable[..., Page]
Monitored = Callable[..., Iterator[str]]


class Opener:
    """Opens pages from a file, and notes what went wrong in them, and what they fetched."""

    def __init__(self, tab: Page, file: Path) -> None:
        """Start before the first page, which will be written into `file` and opened in `tab`."""
        self._tab = tab
        self._file = file
        self._opened: list[Page] = []
        self._wrong: list[str] = []
        self._fetched: list[str] = []

    def open(
        self,
        text: Iterator[str],
        width: int = WIDTH,
        scheme: Literal["light", "dark"] = "light",
    ) -> Page:
        """Open a page's text, and wait until it is drawn."""
        with self._file.open("w") as written:
            written.writelines(text)
        page = self._tab.context.new_page() if self._opened else self._tab
        self._opened.append(page)
        page.set_default_timeout(PATIENCE_MS)
        page.set_viewport_size(ViewportSize(width=width, height=HEIGHT))
        page.emulate_media(media="null", color_scheme=scheme)
        # Nothing is under the pointer that an earlier test left somewhere.
        page.mouse.move(-1, -1)
        page.on("console", self._note)
        page.on("pageerror", self._note_error)
        page.on("request", self._note_request)
        page.goto(f"file://{self._file}")
        page.locator("html[data-ready]").wait_for(state="attached")
        # A browser without a CPU has no frame yet: graphs, timelines and plots are not there.
        page.evaluate(DRAWN)
        return page

    def close(self) -> None:
        """Close all but the tab; nothing may have gone wrong."""
        for page in self._opened:
            page.remove_listener("console", self._note)
            page.remove_listener("pageerror", self._note_error)
            page.remove_listener("request", self._note_request)
            if page != self._tab:
                page.close()
        assert (self._wrong, self._fetched) == ([], [])

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._wrong.append(message.text)

    def _note_error(self, error: Error) -> None:
        self._wrong.append(str(error))

    def _note_request(self, request: Request) -> None:
        if request.url not in (f"file://{self._file}", "data:,"):
            self._fetched.append(request.url)


def page_of(*samples: Sample) -> Iterator[str]:
    return render(None, samples)


def names(page: Page) -> list[str]:
    return page.locator("tr.thread .name").all_inner_texts()


def overflow(page: Page) -> int:
    """How much wider the page is than its window."""
    found = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert isinstance(found, int)
    return found


def comparison_page(write_ns: float, names: Callable[[str], str] = str) -> Iterator[str]:
    draw = random.Random(9)

    def side(file: str, each_ns: float) -> tuple[Side, Figures]:
        figures = Figures()
        for _ in range(10):
            made = sample(draw, each_ns, 20, 0.01)
            threads = (replace(each, name=names(each.name)) for each in made.threads)
            figures.add(replace(made, threads=tuple(threads)))
        known = header("capture", kernel="6.1.0" if each_ns == 10_000 else "6.12.0")
        return Side(names(file), known, figures.samples, figures.window_ns), figures

    before, before_figures = side("before.kdr", 10_000)
    after, after_figures = side("after.kdr", write_ns)
    return render_comparison(before, after, compare(before_figures, after_figures))
