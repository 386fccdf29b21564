"""The workflow runs what the Makefile has, and no action that could change under it."""

import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def workflow(project: Path) -> str:
    return (project / ".github" / "workflows" / "ci.yml").read_text()


@pytest.fixture(scope="module")
def release(project: Path) -> str:
    return (project / ".github" / "workflows" / "release.yml").read_text()


@pytest.fixture(scope="module")
def targets(project: Path) -> set[str]:
    """All that the makefiles can make."""
    makefiles = [project / "Makefile", project / "tests" / "kernels" / "kernels.mk"]
    return set(re.findall(r"^([\w-]+):", "\n".join(m.read_text() for m in makefiles), re.M))


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_each_action_is_pinned_by_commit_with_its_version(project: Path, name: str) -> None:
    actions = re.findall(r"uses: (.*)", (project / ".github" / "workflows" / name).read_text())
    assert actions
    loose = [
        action for action in actions if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", action)
    ]
    assert loose == []


def test_what_it_makes_the_makefile_has(targets: set[str], workflow: str) -> None:
    made = set(re.findall(r"run: make ([\w-]+)", workflow))
    assert {"lint", "test-unit", "test-integration", "test-kernels"} <= made <= targets


def test_a_release_is_made_by_what_runs_anywhere(targets: set[str], release: str) -> None:
    assert set(re.findall(r"run: make ([\w-]+)", release)) == {"release", "image"} <= targets
    assert release.count("attest-build-provenance@") == 2
    # Trusted publishing: no secret is there to be stolen.
    assert "secrets." not in release


def test_wrong_report_form_asks_for_check_output(project: Path) -> None:
    forms = project / ".github" / "ISSUE_TEMPLATE"
    assert "`kernel-delay check --json`" in (forms / "wrong-report.yml").read_text()
