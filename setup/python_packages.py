"""Prints what pyproject.toml asks for, one requirement a line, for pip.

Without arguments: to build and to run. With the names of extras: those.
"""

import sys
import tomllib
from pathlib import Path


def requirements(extras: list[str]) -> list[str]:
    """The requirements of the build and the project, or of the extras."""
    # With build isolation meson-python asks pip for ninja itself (PEP 517,
    # get_requires_for_build_wheel); without, nobody does.
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    if not extras:
        return ["ninja", *project["build-system"]["requires"], *project["project"]["dependencies"]]
    optional = project["project"]["optional-dependencies"]
    return [requirement for extra in extras for requirement in optional[extra]]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
