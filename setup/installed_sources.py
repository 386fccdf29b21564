"""Prints what files of a folder are installed as they are, a path a line; run by meson."""

import sys
from pathlib import Path

# What writes an extension's C source.
BUILD_ONLY = "*_build.py"

# Modules and types, what pages are made of, and queries.
INSTALLED = ("*.py", "*.pyi", "py.typed", "page/static/*", "page/vendor/*", "fleet/*.sql")


def main() -> None:
    """List what is installed below the folder given."""
    folder = Path(sys.argv[1])
    for pattern in INSTALLED:
        for path in sorted(folder.rglob(pattern)):
            if not path.match(BUILD_ONLY):
                print(path.relative_to(folder).as_posix())


if __name__ == "__main__":
    main()
