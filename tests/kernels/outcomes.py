"""A plugin of pytest's for guests: a line of JSON as each test begins, and as it ends.

`-p tests.kernels.outcomes --outcomes FILE`. A guest that dies or is killed keeps what it had, and
the test that it died of has begun and not ended (tests.kernels.results reads both). Each
`--earlier FILE` is such a guest's: the tests that began there are not run again.
"""

import json
from pathlib import Path

import pytest

REASON_LINES = 3
"""So many of a failure's lines are enough: an assertion's message, and its values."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to."""
    parser.addoption("--outcomes", type=Path, required=True, help="the file to write to")
    parser.addoption("--earlier", type=Path, action="append", default=[], help="an earlier one")


def pytest_configure(config: pytest.Config) -> None:
    """Register what writes."""
    config.pluginmanager.register(_Writer(config.getoption("--outcomes")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what earlier guests have run."""
    begun = {
        json.loads(line)["test"]
        for file in config.getoption("--earlier")
        for line in file.read_text().splitlines()
    }
    done = [item for item in items if item.nodeid in begun]
    if done:
        config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if item.nodeid not in begun]


class _Writer:
    """Appends to the file, which is closed each time: nothing is left in memory."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(nodeid, "begun")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write(report.nodeid, "failed", _reason(report))
        elif report.skipped:
            self._write(report.nodeid, "not applicable", _reason(report))
        elif report.when == "call":
            self._write(report.nodeid, "passed")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid, "failed", _reason(report))

    def _write(self, test: str, outcome: str, reason: str = "") -> None:
        with open(self._file, "a") as file:
            file.write(json.dumps({"test": test, "outcome": outcome, "reason": reason}) + "\n")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why it was skipped, or the beginning of why it failed."""
    if isinstance(report.longrepr, tuple):  # of a skip: the file, the line and the reason
        return " ".join(report.longrepr[2].removeprefix("Skipped: ").split())
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else report.longreprtext
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[:REASON_LINES])
