"""SECURITY.md: each test that a promise names is there."""

import re
from pathlib import Path

import pytest

TEST = re.compile(r"`(tests/[\w/]+\.py)`")


@pytest.fixture(scope="module")
def promises(project: Path) -> list[str]:
    page = (project / "SECURITY.md").read_text().partition("## What the boundaries promise")[2]
    return [line for line in page.splitlines() if line.startswith("| ") and "shown by" not in line]


def test_each_promise_names_a_test(promises: list[str]) -> None:
    assert len(promises) > 10
    assert [promise for promise in promises if not TEST.search(promise)] == []


def test_each_test_that_is_named_exists(project: Path, promises: list[str]) -> None:
    named = {path for promise in promises for path in TEST.findall(promise)}
    assert [path for path in sorted(named) if not (project / path).is_file()] == []
