"""What a release says of itself: its notes, its metadata, its page on PyPI, and its workflow."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from setup.release.notes import notes
from setup.release.published import absolute, with_urls

URL = "https://example.org/kernel-delay"
CHANGES = """\
# Changes

## Unreleased

- to come

## 0.2.0, 2026-12-01

### Added

- a thing

## [0.1.0] - 2026-11-01

- the first
"""


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("0.2.0", "### Added\n\n- a thing\n"),
        ("0.1.0", "- the first\n"),
        ("0.1.0.post3+g1234567", "- to come\n"),
        ("0.1", None),
        ("0.3.0", None),
    ],
)
def test_the_notes_are_the_section_of_the_version(version: str, text: str | None) -> None:
    assert notes(CHANGES, version) == text


def test_release_without_a_changelog_section_is_refused(project: Path, tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    script = project / "setup" / "release" / "notes.py"
    command = [sys.executable, str(script), "0.3.0", str(tmp_path / "CHANGELOG.md")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr == "release: CHANGELOG.md has no section '## 0.3.0': write it\n"


def test_no_link_of_the_page_on_pypi_is_relative(project: Path) -> None:
    readme = (project / "README.md").read_text()
    published = absolute(readme, URL, "1.2.3")
    targets = re.findall(r"\]\(([^)\s]+)\)", published)
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    assert f"({URL}/blob/v1.2.3/docs/index.md)" in published
    assert f"({URL}/raw/v1.2.3/docs/images/page.png)" in published
    files = [each.split("/v1.2.3/")[1] for each in targets if each.startswith(URL)]
    assert files
    assert [each for each in files if not (project / each.partition("#")[0]).is_file()] == []


def test_what_is_published_has_the_urls_and_all_else(project: Path) -> None:
    text = (project / "pyproject.toml").read_text()
    published = tomllib.loads(with_urls(text, URL, "1.2.3"))
    assert published["project"].pop("urls")["Changelog"] == f"{URL}/blob/v1.2.3/CHANGELOG.md"
    assert published == tomllib.loads(text)


def test_metadata_has_spdx_licences_and_their_files(project: Path) -> None:
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert metadata["license"] == "Apache-2.0 AND (GPL-2.0-only OR BSD-3-Clause) AND MIT"
    assert all((project / file).is_file() for file in metadata["license-files"])
    assert not any(each.startswith("License ::") for each in metadata["classifiers"])


@pytest.mark.parametrize(
    ("version", "native"),
    [
        ("1.2.3", "1.2.3"),
        ("1.2.3rc1", "1.2.3~rc1"),
        ("1.2.3.post2+gabc1234", "1.2.3.post2+gabc1234"),
        ("0.1.0.dev12+gabc1234.dirty", "0.1.0~dev12+gabc1234.dirty"),
    ],
)
def test_packages_order_versions_as_python_does(project: Path, version: str, native: str) -> None:
    script = project / "setup" / "release" / "native-version.sh"
    done = subprocess.run([script, version], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == f"{native}\n"
