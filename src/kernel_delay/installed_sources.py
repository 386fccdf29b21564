"""Prints what files of a folder are installed as they are, a path a line; run by meson."""

import sys
from pathlib import Path

# What writes an extension's C source or the shells' files, and this file.
BUILD_ONLY = ("*_build.py", "installed_sources.py")

# Modules and types, and what pages are made of.
INSTALLED = ("*.py", "*.pyi", "py.typed", "page/static/*", "page/vendor/*")


def main() -> None:
    """List what is installed below the folder given."""
    folder = Path(sys.argv[1])
    for pattern in INSTALLED:
        for path in sorted(folder.rglob(pattern)):
            if not any(path.match(build_only) for build_only in BUILD_ONLY):
                print(path.relative_to(folder).as_posix())


if __name__ == "__main__":
    main()
