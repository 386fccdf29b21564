"""What is kept of the figures of each version, and its plot."""

from pathlib import Path

import pytest

from bench.cost import history
from bench.cost.history import Entry, append, entry_of, plot, read_history

FIRST, SECOND = "0.1.0", "0.2.0"
INSTRUCTIONS = "default: all programs, instructions verified"
MODULES = "capture, modules imported"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PATH", tmp_path / "history.jsonl")
    monkeypatch.setattr(history, "PLOT", tmp_path / "cost.svg")


def test_entry_has_the_figures_that_are_kept() -> None:
    entry = entry_of({"Linux 6.1": {INSTRUCTIONS: 7, "another": 8}, "Python": {MODULES: 9}})
    assert entry.figures == {INSTRUCTIONS: 7, MODULES: 9}


def test_a_version_has_one_line(empty: None) -> None:
    append(Entry(FIRST, "2026-11-20", {MODULES: 300}))
    append(Entry(SECOND, "2026-11-21", {MODULES: 200}))
    append(Entry(SECOND, "2026-11-22", {MODULES: 100}))
    assert [(each.version, each.figures[MODULES]) for each in read_history()] == [
        (FIRST, 300),
        (SECOND, 100),
    ]
    assert "300 → 100" in history.PLOT.read_text()


def test_plot_shows_what_not_each_version_has() -> None:
    picture = plot([Entry(FIRST, "2026-11-20", {}), Entry(SECOND, "2026-11-21", {MODULES: 5})])
    assert picture.count("<circle") == 1
    assert picture.count("<polyline") == 1


def test_committed_plot_is_of_the_committed_history() -> None:
    assert history.PLOT.read_text() == plot(read_history())
