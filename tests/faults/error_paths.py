"""python -m tests.faults.error_paths: which lines of error paths were run, by coverage.py's data.

Runs the unit tests, and what tests.faults.run tries, with coverage.py in each process. An error
path is a `raise`, or what an `except` does. It prints how many of these lines ran, and the files
that lack most. `--data FILE` reads data of before instead.
"""

import argparse
import ast
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from coverage import Coverage, CoverageData

import kernel_delay

PACKAGE = Path(kernel_delay.__file__).parent

SETTINGS = """[run]
data_file = {folder}/data
source = {package}
parallel = true
patch = subprocess
disable_warnings = no-data-collected, couldnt-parse
"""

# Parsers of what a measured process can write have errors of their own, which fuzzing covers.
MOST_FILES = 15

Row = tuple[int, int, str, str]
"""How many of a file did not run, of how many, its name, and which."""


class ErrorPaths(NamedTuple):
    """The statements of a file that are on error paths, each by its first and last line."""

    path: Path
    statements: Sequence[tuple[int, int]]

    def not_run(self, lines: set[int]) -> list[int]:
        """Return the first lines of those of which no line is among `lines`."""
        return [
            first for first, last in self.statements if lines.isdisjoint(range(first, last + 1))
        ]


def error_paths(path: Path) -> ErrorPaths:
    """Find them: each `raise`, and each statement below an `except`."""
    found: set[tuple[int, int]] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise):
            found.add(_own_lines(node))
        elif isinstance(node, ast.ExceptHandler):
            found.update(_own_lines(each) for each in _statements(node.body))
    return ErrorPaths(path, sorted(found))


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        # Of a definition the line is run, and its body is another function's.
        if not isinstance(statement, ast.Global | ast.Nonlocal):
            yield statement
        for node in ast.iter_child_nodes(statement):
            if isinstance(node, ast.stmt):
                yield from _statements([node])


def _own_lines(statement: ast.stmt) -> tuple[int, int]:
    """Its lines without those of the statements in it."""
    inner = [each.lineno for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt)]
    last = statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, min(inner) - 1) if inner else last


def collect(folder: Path, runs: Sequence[Sequence[str]]) -> Path:
    """Run these modules with their arguments, and return the data of all their processes."""
    folder.mkdir()
    settings = folder / "settings"
    settings.write_text(SETTINGS.format(folder=folder, package=PACKAGE))
    environment = {**os.environ, "COVERAGE_RCFILE": str(settings)}
    for words in runs:
        # What fails is its own run's affair; the lines that it ran, it ran.
        command = [sys.executable, "-m", "coverage", "run", "-m", *words]
        subprocess.run(command, env=environment)
    combined = folder / "data"
    coverage = Coverage(data_file=str(combined), config_file=False)
    coverage.combine([str(folder)])
    coverage.save()
    return combined


def report(data: CoverageData) -> str:
    """Say how many ran, and what lacks most."""
    rows: list[Row] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found = error_paths(path)
        not_run = found.not_run(set(data.lines(str(path)) or ()))
        name = str(path.relative_to(PACKAGE))
        rows.append((len(not_run), len(found.statements), name, _listed(not_run)))
    return ranked(rows, "statements of error paths")


def ranked(rows: Sequence[Row], what: str) -> str:
    """Say how many ran, and which files lack most."""
    total = sum(count for _, count, _, _ in rows)
    run = total - sum(lacking for lacking, _, _, _ in rows)
    lines = [f"{total} {what}, {run} run ({100 * run / max(1, total):.1f} %)"]
    for lacking, count, name, not_run in sorted(rows, reverse=True)[:MOST_FILES]:
        if lacking:
            lines.append(f"{lacking:4} of {count:4} not run: {name}: {not_run}")
    return "\n".join(lines)


def _listed(numbers: Sequence[int], most: int = 12) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return shown + (" …" if len(numbers) > most else "")


def main() -> int:
    """Run what there is to run, and print the report; the exit status."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--data", type=Path, nargs="+", metavar="FILE", help="data of runs before, instead of runs"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where the data stay")
    parser.add_argument("--faults", default="--each 2", metavar="ARGUMENTS", help="of faults.run")
    parser.add_argument("--tests", default="tests/unit", metavar="FOLDER", help="of pytest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="error-paths-") as folder:
        paths = options.data
        if paths is None:
            runs = (
                ("pytest", "-q", "--numprocesses", "2", "--dist", "loadfile", options.tests),
                ("tests.faults.run", *shlex.split(options.faults)),
            )
            paths = [collect(Path(folder) / "all", runs)]
            if options.keep:
                shutil.copy(paths[0], options.keep)
        data = CoverageData(no_disk=True)
        for path in paths:
            found = CoverageData(str(path))
            found.read()
            data.update(found)
        print(report(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
