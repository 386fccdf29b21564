"""Fixtures of the unit tests."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from kernel_delay.host import privileges
from tests.needs import needed
from tests.workload import HANGS_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from kernel_delay.model import MeasuringCommand
    from tests.unit.pages import Monitored, Open

# A busy machine must not fail a property for its slowness.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Runs as the first process of a PID namespace, so that all it started ends with it.
AMONG = """
import subprocess, sys
names, arguments = sys.argv[1].split(), sys.argv[2:]
for name in names:
    subprocess.Popen([name, "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
sys.exit(subprocess.run([sys.executable, *arguments]).returncode)
"""


@pytest.fixture(autouse=True)
def _rights_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in the tests' own process gives up none of its rights."""
    monkeypatch.setattr(privileges, "keep_only", lambda *_: None)


@pytest.fixture
def among_processes(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python with arguments among processes of the given names and no others.

    Other processes of the machine, an Open vSwitch among them, are not seen.
    """
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("no PID namespace can be made: not root?")

    def run(names: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
        programs = []
        for number, name in enumerate(names):
            directory = tmp_path / str(number)
            directory.mkdir()
            shutil.copy("/bin/sleep", directory / name)
            programs.append(str(directory / name))
        command = [*unshare, sys.executable, "-c", AMONG, " ".join(programs), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S)

    return run


@pytest.fixture(autouse=True)
def plain_verdicts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test of the verdict has it say is said in plain sentences."""
    if not request.node.path.name.startswith("test_verdict"):
        return
    from kernel_delay.analysis.verdict import rule
    from kernel_delay.model import Finding
    from tests.unit.plain_words import faults

    make = rule._finding

    def made(*parts: Any) -> Finding:
        finding: Finding = make(*parts)
        assert not list(faults(finding.text))
        return finding

    monkeypatch.setattr(rule, "_finding", made)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    path = needed("chromium")
    with sync_playwright() as playwright:
        # As root, in a container, there is no sandbox to be had.
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def tab(browser: "Browser") -> "Page":
    """Where a file's tests open their pages: a tab for each would be a process for each."""
    return browser.new_context().new_page()


@pytest.fixture(scope="module")
def pictures(project: Path) -> Path:
    folder = project / "build" / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def open_page(tab: "Page", tmp_path: Path) -> "Iterator[Open]":
    """Opens a page's text from a file; at the end nothing went wrong in it, nor was fetched."""
    from tests.unit.pages import Opener

    opener = Opener(tab, tmp_path / "page.html")
    yield opener.open
    opener.close()


@pytest.fixture
def monitor_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> "Monitored":
    """The page of a recording of so many events, which `report` makes."""
    from kernel_delay.cli import main
    from tests.unit.monitor_recordings import record

    def monitor_page(command: "MeasuringCommand", count: int, name: str = "") -> Iterator[str]:
        path, page = record(tmp_path / "a.kdr", command, count, name), tmp_path / "monitor.html"
        assert main(["report", "-q", str(path), "--html", str(page)]) == 0
        return iter([page.read_text()])

    return monitor_page
