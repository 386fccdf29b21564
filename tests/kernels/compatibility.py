"""docs/reference/compatibility.md, of results.json: python -m tests.kernels.compatibility [RUN...].

Each RUN is what a guest left (build/kernels/RELEASE/run.json). It goes into results.json first: a
later result of a test stands in place of an earlier one.
"""

import argparse
import string
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.kernels.images import host_only_tests, listed_kernels
from tests.kernels.record import PAGE, RECORD, Circumstances, Outcomes, Record
from tests.kernels.results import Outcome, footnotes, tally

HEAD = """\
# Compatibility

This page lists what was tested on which kernel. `make test-kernels` boots each kernel of
`tests/kernels/kernels.toml` in a virtual machine and runs the integration tests there. `make
compatibility` also writes the results to `tests/kernels/results.json`, and this page from them.
Do not edit the page. A kernel or a folder of tests can run alone, on another day:

    make compatibility KERNELS_ARGS="--kernel 'Linux 5.14' tests/integration/capture"

## Kernels
"""

BY_FILE = """
## By file

A plain number counts tests that passed. A test that is not applicable (n/a) needs something that
the machine lacks; the number in brackets leads to the reason. Tests that did not run are not
counted. A dash means that no test of the file ran. Each variant of a test counts. On an emulated
CPU a test with many variants runs some of them (`few` in `tests/emulation.py`).
"""

FLOWS = """
## Flows of the kernel's datapath

`make test-flows` is not in the table. In such a guest real traffic makes 10,000 flows. Then they
go or change, by one cause after the other, while `revalidator`, `flows` and `datapath-ops`
record. The test compares these with `upcall/show`, `dpctl/show`, `ovs-dpctl`, the kernel's count
of upcalls and Open vSwitch's counters. It also writes each message of `datapath-ops` again and
compares the bytes.

It last ran before cd4e2bb2, on 2026-11-22: on Linux 6.1, 6.12 and 7.2, once with Open vSwitch 3.5
and once with 4.0, not always alone on the machine. The seven causes are max-idle, idle_timeout,
hard_timeout, the flow limit, del-flows, add-flow and dpctl/del-flows. All agreed. A run had 250,045
to 260,006 messages, and none was lost. EEXIST, ENOENT and ENODEV were reported.
"""

NOT_RUN = "not run"


def main() -> int:
    """Take up the runs, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels.compatibility")
    parser.add_argument("run", nargs="*", type=Path, help="a run.json to take up")
    write([Outcomes.read(path) for path in parser.parse_args().run])
    return 0


def write(runs: Iterable[Outcomes]) -> None:
    """Put the runs' results into results.json, and write the page anew."""
    record = Record.read()
    for run in runs:
        record = record.merged(run)
    record.current().write(RECORD)
    PAGE.write_text(page(Record.read()))


def page(record: Record) -> str:
    """The page's text, in Markdown, of the kernels that are listed."""
    names = [kernel.name for kernel in listed_kernels()]
    lines = [HEAD, *_kernels(record, names)]
    run = [name for name in names if any(record.of(name))]
    if run:
        lines += [BY_FILE, *_files(record, run)]
    lines += [FLOWS, "## On the host alone", "", "| tests | why |", "|---|---|"]
    lines.extend(f"| `{test}` | {reason} |" for test, reason in host_only_tests().items())
    return "\n".join(lines) + "\n"


def _kernels(record: Record, names: list[str]) -> Iterator[str]:
    """A row for each kernel: what its tests came to, and when they ran at which commit."""
    columns = ("kernel", "release", "passed", "not applicable", "failed", "run on, at commit")
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for name in names:
        results = [result.outcome for _, _, result in record.of(name)]
        if not results:
            yield f"| {name} | | | | | {NOT_RUN} |"
            continue
        marks = _marks(record, name)
        counts = [str(results.count(outcome)) for outcome in _COUNTED]
        runs = ". ".join(_run(record, name, one, mark) for one, mark in marks.items())
        release = max(marks, key=_age).release
        yield f"| {name} | {release} | {' | '.join(counts)} | {runs} |"


_COUNTED = (Outcome.PASSED, Outcome.NOT_APPLICABLE, Outcome.FAILED)


def _run(record: Record, kernel: str, run: Circumstances, mark: str) -> str:
    count = sum(one == run for _, one, _ in record.of(kernel))
    text = f"{run.date}, {run.commit}, {run.accelerator}: {count}"
    return f"({mark}) {run.release}, {text}" if mark else text


def _marks(record: Record, kernel: str) -> dict[Circumstances, str]:
    """The runs of a kernel's, the newest first; those of another commit than its with a letter."""
    runs = sorted({run for _, run, _ in record.of(kernel)}, key=_age, reverse=True)
    newest, letters = runs[0], iter(string.ascii_lowercase)
    same = (newest.commit, newest.release)
    return {run: "" if (run.commit, run.release) == same else next(letters) for run in runs}


def _age(run: Circumstances) -> tuple[str, Circumstances]:
    return run.date, run


def _files(record: Record, kernels: list[str]) -> Iterator[str]:
    """The table by file, then failures by name and why tests are not applicable."""
    notes = footnotes(result for results in record.tests.values() for _, result in results.values())
    yield f"| file | {' | '.join(kernels)} |"
    yield "|---" * (len(kernels) + 1) + "|"
    for file in sorted({test.partition("::")[0] for test in record.tests}):
        cells = [_cell(record, kernel, file, notes) for kernel in kernels]
        yield f"| `{file.removeprefix('tests/integration/')}` | {' | '.join(cells)} |"
    reasons = [f"{number}. {reason}" for reason, number in notes.items()]
    yield from ("", "## Failed", "", *(list(_failed(record, kernels)) or ["None."]))
    yield from ("", "## Not applicable", "", *(reasons or ["None."]))


def _cell(record: Record, kernel: str, file: str, notes: dict[str, int]) -> str:
    marks = _marks(record, kernel)
    of_file = [(run, result) for test, run, result in record.of(kernel) if _file(test) == file]
    letters = sorted({marks[run] for run, _ in of_file} - {""})
    text = tally((result for _, result in of_file), notes)
    return f"{text} ({', '.join(letters)})" if letters else text


def _failed(record: Record, kernels: list[str]) -> Iterator[str]:
    for kernel in kernels:
        for test, run, result in record.of(kernel):
            if result.outcome is Outcome.FAILED:
                yield f"- {kernel}, {run.commit}: `{test}`: `` {result.reason} ``"


def _file(test: str) -> str:
    return test.partition("::")[0]


if __name__ == "__main__":
    sys.exit(main())
