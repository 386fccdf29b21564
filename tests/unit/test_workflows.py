"""The workflow runs what the Makefile has, and no action that could change under it."""

import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def workflow(project: Path) -> str:
    return (project / ".github" / "workflows" / "ci.yml").read_text()


def test_each_action_is_pinned_by_its_commit_and_says_its_version(workflow: str) -> None:
    actions = re.findall(r"uses: (.*)", workflow)
    assert actions
    loose = [
        action for action in actions if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", action)
    ]
    assert loose == []


def test_what_it_makes_the_makefile_has(project: Path, workflow: str) -> None:
    makefiles = [project / "Makefile", project / "tests" / "kernels" / "kernels.mk"]
    targets = set(re.findall(r"^([\w-]+):", "\n".join(m.read_text() for m in makefiles), re.M))
    made = set(re.findall(r"run: make ([\w-]+)", workflow))
    assert {"lint", "test-host", "test-kernels"} <= made <= targets


def test_the_form_for_a_wrong_report_asks_for_a_check(project: Path) -> None:
    forms = project / ".github" / "ISSUE_TEMPLATE"
    assert "`kernel-delay check --json`" in (forms / "wrong-report.yml").read_text()
