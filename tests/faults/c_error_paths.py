"""python -m tests.faults.c_error_paths: which lines of C's error paths were run, by gcov's data.

Builds the extensions with gcov into a folder, and runs tests with them. An error path is a line
that returns a negative errno, NULL or false, or goes to what cleans up. BPF programs run in the
kernel, and the parser of a target's files may write no file: neither is counted.
"""

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.faults.error_paths import Row, ranked

PROJECT = Path(__file__).parents[2]
SOURCES = PROJECT / "src" / "kernel_delay"

FAILS = re.compile(r"\breturn (-\w|NULL;|false;|errno)|\bgoto \w+;|\breturn .*\? -\w+")


TESTS = (
    *(
        "tests/unit/test_c_functions.py",
        "tests/unit/test_kept_events.py",
        "tests/unit/test_timeline.py",
    ),
    *(
        "tests/unit/test_tracks.py",
        "tests/unit/test_longest_events.py",
        "tests/unit/test_signals.py",
    ),
    *(
        "tests/unit/test_stack_table.py",
        "tests/unit/test_epochs.py",
        "tests/unit/test_shortages.py",
    ),
    *("tests/unit/test_mappings.py", "tests/integration/symbols/test_unwind_rows.py"),
    "tests/integration/symbols/test_hostile_targets.py",
)

# A write that fails, or a full disk, would be one of gcov's own too.
KINDS = (
    *("bpf", "openat", "read", "mmap", "perf_event_open", "poll", "fork"),
    *("memory", "descriptors", "/proc", "tracefs"),
)
FAULTS = f"--each 4 --only capture {' '.join(f'--kind {kind}' for kind in KINDS)}"


def build(folder: Path) -> Path:
    """Build the package with gcov; return where it is."""
    installed = folder / "installed"
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--target", str(installed)]
    options += [f"--config-settings=build-dir={folder / 'objects'}"]
    options += ["--config-settings=setup-args=-Db_coverage=true"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "."], cwd=PROJECT, check=True)
    return installed


def run_all(installed: Path, runs: Sequence[Sequence[str]]) -> None:
    """Run these modules with their arguments, on what was built."""
    path = os.pathsep.join((str(installed), str(PROJECT)))
    for words in runs:
        # What fails is its own run's affair; the lines that it ran, it ran.
        environment = {**os.environ, "PYTHONPATH": path}
        subprocess.run([sys.executable, "-m", *words], cwd=PROJECT, env=environment)


def counts(objects: Path) -> Mapping[Path, Mapping[int, int]]:
    """How often each line of each file of ours was run."""
    found: dict[Path, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for notes in objects.rglob("*.gcno"):
        with tempfile.TemporaryDirectory() as output:
            command = ["gcov", "--json-format", str(notes)]
            if subprocess.run(command, cwd=output, capture_output=True).returncode:
                print(f"gcov can't read the data of {notes.stem}", file=sys.stderr)
            for written in Path(output).glob("*.gcov.json.gz"):
                document = json.loads(gzip.decompress(written.read_bytes()))
                where = Path(document["current_working_directory"])
                for file in document["files"]:
                    source = (where / file["file"]).resolve()
                    if source.is_relative_to(SOURCES) or source.is_relative_to(objects):
                        for line in file["lines"]:
                            found[source][line["line_number"]] += line["count"]
    return found


def own_lines(source: Path) -> Mapping[int, str]:
    """The lines of a file that we wrote: of an extension's, those that cffi copied."""
    lines = dict(enumerate(source.read_text().splitlines(), 1))
    if source.is_relative_to(SOURCES):
        return lines
    ours = {line for file in SOURCES.rglob("*.[ch]") for line in file.read_text().splitlines()}
    # cffi indents by spaces.
    return {number: line for number, line in lines.items() if line[:1] == "\t" and line in ours}


def report(found: Mapping[Path, Mapping[int, int]], objects: Path) -> str:
    """Say how many ran, and what lacks most."""
    rows: list[Row] = []
    for source in sorted(found):
        lines = own_lines(source)
        paths = [number for number in found[source] if FAILS.search(lines.get(number, ""))]
        not_run = [lines[number].strip() for number in sorted(paths) if not found[source][number]]
        top = SOURCES if source.is_relative_to(SOURCES) else objects / "src" / "kernel_delay"
        rows.append((len(not_run), len(paths), str(source.relative_to(top)), "; ".join(not_run)))
    return ranked(rows, "lines of C's error paths")


def main() -> int:
    """Build, run, and print the report; the exit status."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path, metavar="DIR", help="of a run before: add to it")
    parser.add_argument("--faults", default=FAULTS, help="arguments of faults.run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="error-paths-") as fresh:
        folder = options.folder or Path(fresh)
        installed = folder / "installed"
        if not installed.exists():
            build(folder)
        run_all(
            installed, (("pytest", "-q", *TESTS), ("tests.faults.run", *options.faults.split()))
        )
        objects = (folder / "objects").resolve()
        print(report(counts(objects), objects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
