"""speedscope as npm has it, and what its importer makes of a file."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from tests.needs import needed

PATIENCE_MS = 60_000

Stacks = Counter[tuple[str, ...]]
Import = Callable[[str], Stacks]


@pytest.fixture(scope="session")
def speedscope() -> Path:
    """The folder of its page."""
    if "SPEEDSCOPE" not in os.environ:
        pytest.fail("where is speedscope? `make test-speedscope` brings it", pytrace=False)
    return Path(os.environ["SPEEDSCOPE"]) / "dist" / "release"


@pytest.fixture
def imported(speedscope: Path, tmp_path: Path) -> Iterator[Import]:
    """The stacks of a folded text, with their weights, as the page writes them out again."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=needed("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)

        def imported(text: str) -> Stacks:
            file = tmp_path / "a.folded"
            file.write_text(text, encoding="utf-8")
            page.goto(f"file://{speedscope}/index.html")
            page.locator("input[type=file]").set_input_files(file)
            page.get_by_text("Left Heavy").wait_for()
            with page.expect_download() as download:
                page.keyboard.press("Control+s")
            return _stacks(json.loads(download.value.path().read_text()))

        yield imported
        browser.close()


def _stacks(document: Any) -> Stacks:
    """What its file format says: frames that open and close, at sums of weights.

    https://github.com/jlfwong/speedscope/blob/main/src/lib/file-format-spec.ts
    """
    names = [frame["name"] for frame in document["shared"]["frames"]]
    (profile,) = document["profiles"]
    stacks: Stacks = Counter()
    stack: list[str] = []
    last = profile["startValue"]
    for event in profile["events"]:
        if event["at"] > last:
            stacks[tuple(stack)] += event["at"] - last
            last = event["at"]
        if event["type"] == "O":
            stack.append(names[event["frame"]])
        else:
            assert stack.pop() == names[event["frame"]]
    return stacks
