"""Prints what CHANGELOG.md says of a version: the notes of its release.

notes.py VERSION [FILE]: a version of no tag has what is unreleased. Exits with 65 (EX_DATAERR) if
there is nothing of that version.
"""

import os
import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str | None:
    """Return the text below the version's heading, `## N.N.N`, which a date may follow."""
    name = version if re.fullmatch(r"[\d.]+((a|b|rc)\d+)?", version) else "Unreleased"
    heading = rf"^## \[?{re.escape(name)}(?![\w.+])[^\n]*\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() + "\n" if found and found[1].strip() else None


def main() -> int:
    """Print them."""
    version, *files = sys.argv[1:]
    file = Path(files[0]) if files else CHANGELOG
    text = notes(file.read_text(), version)
    if text is None:
        print(f"release: {file.name} has no section '## {version}': write it", file=sys.stderr)
        return os.EX_DATAERR
    print(text, end="")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
