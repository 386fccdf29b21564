"""Writes where the project is into what is published: pyproject.toml and README.md.

published.py TREE URL VERSION: PyPI shows README, where a link into the tree leads nowhere. So in
TREE, a copy that a release is built from, such links become those of the version's files at URL,
and pyproject.toml gets `project.urls`. The repository itself has neither: a fork's are its own.
"""

import re
import sys
from pathlib import Path

# [text](target) and ![text](target), the text perhaps on two lines; no page, no place in this one.
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")


def absolute(readme: str, url: str, version: str) -> str:
    """Return the text with each link into the tree as one of the version's files at `url`."""

    def replaced(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({url}/{kind}/v{version}/{link[3]})"

    return LINK.sub(replaced, readme)


def with_urls(pyproject: str, url: str, version: str) -> str:
    """Return the text with the table `project.urls`."""
    table = f"""\
[project.urls]
Homepage = "{url}"
Documentation = "{url}/blob/v{version}/docs/index.md"
Changelog = "{url}/blob/v{version}/CHANGELOG.md"
Issues = "{url}/issues"
Source = "{url}"

"""
    before, heading, after = pyproject.partition("[project.optional-dependencies]\n")
    assert heading, "pyproject.toml has no [project.optional-dependencies]"
    return before + table + heading + after


def main() -> None:
    """Rewrite the two files of the tree."""
    tree, url, version = sys.argv[1:]
    for name, rewrite in (("README.md", absolute), ("pyproject.toml", with_urls)):
        file = Path(tree, name)
        file.write_text(rewrite(file.read_text(), url.rstrip("/"), version))


if __name__ == "__main__":
    main()
