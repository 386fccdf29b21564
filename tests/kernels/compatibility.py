"""Writes and reads docs/compatibility.md: the last run's kernel-by-test table."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.kernels.images import guest_tests, host_only_tests
from tests.kernels.results import KernelRun, all_tests, cell, reasons

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

HEAD = """\
# Compatibility

What was tested, on what. `make test-kernels` boots each kernel of
`tests/kernels/kernels.toml` in a virtual machine and runs the integration tests
there; `make compatibility` writes this page from the results. Don't edit it.

A test is not applicable where the machine lacks what it needs; the number
leads to the reason below the table. One that is NOT RUN was left out of the last run:
`make compatibility KERNELS_ARGS=--brief` runs what `brief` in `kernels.toml` lists.
Where the CPU is emulated, a test of many variants runs some of them (`few` in
`tests/emulation.py`). What runs on the host alone, and why, is at the end.

`make test-flows` is not in the table. In such a guest 10,000 flows are made by real traffic and
then go or change, by one cause after the other, while `revalidator`, `flows` and `datapath-ops`
record. It holds these against `upcall/show`, `dpctl/show`, `ovs-dpctl`, the kernel's count of
upcalls and Open vSwitch's counters, and has each message of `datapath-ops` written anew: the same
bytes. With Open vSwitch 3.5 and 4.0 each, and seven causes (max-idle, idle_timeout, hard_timeout,
the flow limit, del-flows, add-flow, dpctl/del-flows), in one run of each, not all of them alone on
the machine. All agreed on Linux 6.1, 6.12 and 7.2: of 250,045 to 260,006 messages a run none was
lost. EEXIST, ENOENT and ENODEV were told.
"""


ON_THE_HOST = "## On the host alone"


REPOSITORY = PAGE.parents[1]


def collected_tests() -> set[str]:
    """The tests that are for guests, as `file.py::function`, without parameters."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    command += guest_tests()
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    return {line.partition("[")[0].rpartition("/")[2] for line in lines}


def page(runs: list[KernelRun], accelerator: str, tests: Iterable[str] = ()) -> str:
    """The page's text, in Markdown; `tests` have a row each, also those that no run had."""
    notes = reasons(runs)
    lines = [
        HEAD,
        f"Guests ran under QEMU with {accelerator}.",
        "",
        "| test | " + " | ".join(f"{run.name}: {run.release}" for run in runs) + " |",
        "|---" * (len(runs) + 1) + "|",
    ]
    for test in sorted({*all_tests(runs), *tests}):
        cells = [cell(run.result(test), notes) for run in runs]
        lines.append(f"| `{test}` | " + " | ".join(cells) + " |")
    lines.append("")
    lines.extend(f"{number}. {_one_line(reason)}" for reason, number in notes.items())
    lines += ["", ON_THE_HOST, "", "| tests | why |", "|---|---|"]
    lines.extend(f"| `{test}` | {reason} |" for test, reason in host_only_tests().items())
    return "\n".join(lines).rstrip() + "\n"


def kernels_on(text: str) -> list[str]:
    """The kernels' names in a page's table head, without their releases."""
    head = next(line for line in text.splitlines() if line.startswith("| test |"))
    return [column.partition(":")[0].strip() for column in head.strip("|").split("|")[1:]]


def tests_on(text: str) -> list[str]:
    """The tests in a page's table."""
    table = text.partition(ON_THE_HOST)[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    return [row.split("`")[1] for row in rows]


def _one_line(text: str) -> str:
    return " ".join(text.split())
