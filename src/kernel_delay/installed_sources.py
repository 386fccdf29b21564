"""Prints what Python files of a folder are installed, a path a line; run by meson."""

import sys
from pathlib import Path

# What writes an extension's C source, and this file.
BUILD_ONLY = ("*_build.py", "installed_sources.py")


def main() -> None:
    """List the modules, and the types of the extensions, below the folder given."""
    folder = Path(sys.argv[1])
    for pattern in ("*.py", "*.pyi", "py.typed"):
        for path in sorted(folder.rglob(pattern)):
            if not any(path.match(build_only) for build_only in BUILD_ONLY):
                print(path.relative_to(folder).as_posix())


if __name__ == "__main__":
    main()
