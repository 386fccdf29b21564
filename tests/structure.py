"""python -m tests.structure: figures of how the sources are laid out, and what each is to reach.

`make structure` runs it. No figure depends on the machine: it reads the sources, and imports what
a report of one Sample imports.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from bench.cost.recordings import record_threads
from tests.unit.plain_words import BANNED, MOST_WORDS, faults, paragraphs

PROJECT = Path(__file__).parent.parent
SOURCE = PROJECT / "src"
PACKAGE = SOURCE / "kernel_delay"
PAGES = (
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
)

SHORT_LINES = 60
LONG_LINES = 400
MOST_COMPLEXITY = 15
MANY_PARAMETERS = 7

NOT_OURS = ("vendor", "__pycache__")

MONITOR = "datapath-ops"
"""What one of the monitors is called: no name of another begins with it, and no option's."""

# Imported modules, a line each, of a report that goes nowhere.
REPORTED = """
import contextlib, io, sys
from kernel_delay.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["report", sys.argv[1]])
print("\\n".join(name for name in sys.modules if name.startswith("kernel_delay")))
"""

_ROOM = re.compile(r"^\| `[\w.]+` \|", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "(?:.*/)?(\w+\.h)"', re.MULTILINE)
# But file.tell(), and the key of format 1 of recordings.
_REPORTED = re.compile(r"\b(told|untold|tells?)\b(?!\(\)|\":)", re.IGNORECASE)


def source_files(*suffixes: str) -> list[Path]:
    """The files of src that are ours, with these suffixes or any."""
    files = (path for path in sorted(SOURCE.rglob("*")) if path.is_file())
    ours = (path for path in files if not set(NOT_OURS) & {*path.relative_to(SOURCE).parts})
    return [path for path in ours if not suffixes or path.suffix in suffixes]


def line_count(path: Path) -> int:
    """How many lines a file has."""
    return path.read_bytes().count(b"\n")


def lines() -> int:
    """Lines in src."""
    return sum(map(line_count, source_files()))


def files() -> int:
    """Files in src."""
    return len(source_files())


def folders() -> int:
    """Folders in src with a file."""
    return len({path.parent for path in source_files()})


def rooms() -> int:
    """Rooms of docs/architecture.md."""
    page = (PROJECT / "docs" / "architecture.md").read_text()
    return len(_ROOM.findall(page.partition("## Rooms")[2].partition("\n## ")[0]))


def short_files() -> int:
    """Python files of few lines."""
    return sum(line_count(path) < SHORT_LINES for path in source_files(".py"))


def long_files() -> int:
    """Files of many lines; stubs are generated."""
    written = (path for path in source_files() if path.suffix != ".pyi")
    return sum(line_count(path) > LONG_LINES for path in written)


def functions() -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield each function of the Python files."""
    for path in source_files(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node


def complex_functions() -> int:
    """Functions of a high cyclomatic complexity, as ruff counts it (C901)."""
    command = [
        *(sys.executable, "-m", "ruff", "check", "--isolated", "--exit-zero", "--no-cache"),
        *("--select", "C901", "--config", f"lint.mccabe.max-complexity={MOST_COMPLEXITY}"),
        *("--output-format", "json", str(SOURCE)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return len(json.loads(done.stdout))


def functions_of_many_parameters() -> int:
    """Functions of many parameters, beside `self` and `cls`."""

    def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        found = function.args
        names = [each.arg for each in (*found.posonlyargs, *found.args, *found.kwonlyargs)]
        return len([name for name in names if name not in ("self", "cls")])

    return sum(parameters(function) >= MANY_PARAMETERS for function in functions())


def modules_of_a_report() -> list[str]:
    """Modules of the package that are imported by `report` of one Sample."""
    with tempfile.TemporaryDirectory() as folder:
        recording = record_threads(Path(folder, "one.kdr"), 10)
        command = [sys.executable, "-P", "-c", REPORTED, str(recording)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


def of_open_vswitch(modules: list[str]) -> int:
    """How many of these know what Open vSwitch does; options of monitors are none of them."""
    rooms = r"kernel_delay\.(ovs|openvswitch|monitors\.\w+\.(?!\w*command$)\w+)(\.|$)"
    return sum(bool(re.match(rooms, name)) for name in modules)


def files_that_know_a_monitor() -> int:
    """Files of src, outside of its own folder, that have a monitor's name."""
    spelt = re.compile(re.escape(MONITOR).replace(r"\-", "[-_]"))
    known = (path for path in source_files() if spelt.search(path.relative_to(SOURCE).as_posix()))
    named = (path for path in source_files() if spelt.search(path.read_text(errors="replace")))
    own = PACKAGE / "monitors" / MONITOR.replace("-", "_")
    return len({path for path in (*known, *named) if own not in path.parents})


def folders_that_args_enters() -> int:
    """Folders with a file that has argparse's Namespace."""
    named = re.compile(r"\bargparse\.Namespace\b|\bimport .*\bNamespace\b")
    return len({path.parent for path in source_files(".py") if named.search(path.read_text())})


def headers_behind_capture() -> int:
    """Headers of ours that capture.bpf.c includes, and those that they include."""
    folder = PACKAGE / "bpf"
    paths = {path.name: path for path in folder.rglob("*.h")}
    waiting, found = [folder / "capture.bpf.c"], set[Path]()
    while waiting:
        names = _INCLUDE.findall(waiting.pop().read_text())
        new = {paths[name] for name in names if name in paths} - found
        found |= new
        waiting += new
    return len(found)


def words_for_reported() -> int:
    """Places of src with a word of ours for `reported`."""
    kinds = (".py", ".c", ".h", ".sql", ".js")
    return sum(len(_REPORTED.findall(path.read_text())) for path in source_files(*kinds))


def faults_of_pages() -> list[str]:
    """What is wrong with a sentence of the pages."""
    texts = (text for page in PAGES for text in paragraphs(page.read_text()))
    return [fault for text in texts for fault in faults(text)]


def banned_words() -> int:
    """Sentences of pages with a word that we do not write."""
    banned = re.compile(rf"'({'|'.join(BANNED)})'", re.IGNORECASE)
    return sum(bool(banned.match(fault)) for fault in faults_of_pages())


def long_sentences() -> int:
    """Sentences of pages that are too long."""
    return sum(bool(re.match(r"\d+ words:", fault)) for fault in faults_of_pages())


FIGURES: Mapping[str, tuple[Callable[[], int], int]] = MappingProxyType(
    {
        "lines in src": (lines, 54_000),
        "files": (files, 360),
        "folders": (folders, 26),
        "rooms in architecture.md": (rooms, 22),
        f"Python files under {SHORT_LINES} lines": (short_files, 45),
        f"files over {LONG_LINES} lines": (long_files, 0),
        f"functions of complexity > {MOST_COMPLEXITY}": (complex_functions, 0),
        f"functions with >= {MANY_PARAMETERS} parameters": (functions_of_many_parameters, 0),
        "modules imported by report of a capture": (lambda: len(modules_of_a_report()), 85),
        "of these for Open vSwitch": (lambda: of_open_vswitch(modules_of_a_report()), 0),
        f"files that name a monitor ({MONITOR})": (files_that_know_a_monitor, 8),
        "folders that args enters": (folders_that_args_enters, 5),
        "headers behind capture.bpf.c": (headers_behind_capture, 20),
        "words for `reported` in src": (words_for_reported, 0),
        "banned words in pages": (banned_words, 0),
        f"sentences over {MOST_WORDS} words in pages": (long_sentences, 0),
    }
)
"""Each figure's name, what counts it, and what it is to reach."""


def main() -> None:
    """Print the table."""
    width = max(map(len, FIGURES))
    print(f"{'figure':<{width}} {'now':>8} {'to reach':>9}")
    for name, (count, most) in FIGURES.items():
        print(f"{name:<{width}} {count():>8,} {most:>9,}")


if __name__ == "__main__":
    main()
