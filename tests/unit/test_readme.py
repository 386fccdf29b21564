"""What README says of the commands that it lists."""

import re
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("kernel-delay revalidator", "USDT probes or symbols"),
        ("kernel-delay flows", "USDT probes"),
        ("up:bridge_run", "symbols"),
    ],
)
def test_listed_command_says_what_it_needs(project: Path, words: str, needed: str) -> None:
    (line,) = [line for line in (project / "README.md").read_text().splitlines() if words in line]
    assert line.endswith(f"needs {needed}")


def test_install_commands_are_those_of_the_site(project: Path) -> None:
    pages = (project / "README.md", project / "docs" / "reference" / "requirements.md")
    blocks = [
        re.search(r"\n((?:    .*\n)+)", page.read_text().partition("\n## Install\n")[2])
        for page in pages
    ]
    readme, site = (block and block[1] for block in blocks)
    assert readme == site is not None
