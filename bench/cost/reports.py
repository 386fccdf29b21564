"""Calls and memory of a report, for each thread and each event more. Also run as a program."""

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.cost.recordings import record_events, record_threads
from kernel_delay import cli, open_recording
from kernel_delay.analysis.verdict import judge

_FEW = 100
_MORE = 100

_FORMS: dict[str, tuple[Callable[[Path, int], Path], dict[str, Sequence[str]]]] = {
    "threads": (
        record_threads,
        {"text": (), "--summary": ("--summary",), "--json": ("--json",)},
    ),
    "events": (
        record_events,
        {
            "text": (),
            "--perfetto": ("--perfetto", "trace"),
            "--html": ("--html", "page.html"),
        },
    ),
}


def report_calls(folder: Path) -> dict[str, int]:
    """Return what _MORE threads or events more take of a report in each form."""
    found: dict[str, int] = {}
    for kind, (record, forms) in _FORMS.items():
        few = record(folder / "few.kdr", _FEW)
        many = record(folder / "many.kdr", _FEW + _MORE)
        for form, options in forms.items():
            fewer, more = (_counted(folder, str(path), *options) for path in (few, many))
            for what, value in more.items():
                found[f"report, {form}: {what}, for {_MORE} {kind} more"] = value - fewer[what]
    return found


def _counted(folder: Path, *arguments: str) -> dict[str, int]:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.getcwd(), "COLUMNS": "80"}
    counted: dict[str, int] = {}
    for what in _COUNTED:
        said = subprocess.run(
            [sys.executable, "-m", "bench.cost.reports", what, *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        ).stderr
        counted[what] = int(said.splitlines()[-1])
    return counted


def calls_of(act: Callable[[], object]) -> int:
    """Return how many functions that calls, Python's built-in ones too."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    act()
    sys.setprofile(None)
    return calls


def _peak_bytes(act: Callable[[], object]) -> int:
    """Return how much that has allocated at most at once."""
    tracemalloc.start()
    act()
    return tracemalloc.get_traced_memory()[1]


def _report(arguments: Sequence[str]) -> None:
    """Report; and judge, as a capture does before it reports."""
    status = cli.main(["report", *arguments])
    if status:
        sys.exit(status)
    for sample in open_recording(arguments[0]):
        judge(sample)


def main() -> None:
    """Report what sys.argv says; print what was counted as JSON, to stderr."""
    what, *arguments = sys.argv[1:]
    count = _COUNTED[what]
    print(count(lambda: _report(arguments)), file=sys.stderr)


_COUNTED = {"calls": calls_of, "bytes allocated at the peak": _peak_bytes}


if __name__ == "__main__":
    main()
