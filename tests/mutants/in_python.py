"""Mutants of the Python that judges: what mutmut puts in, and the unit tests that have to see it.

mutmut takes its folder's sources and tests, and the tests that reach the function which a mutant is
in. Tests that start the command do not count: that is another process, with the real package.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import kernel_delay
from tests.mutants.outcomes import Counted, MutantsError, Mutated

PROJECT = Path(__file__).parents[2]

MUTATED = ("analysis/*",)
# Of tests/unit, those that have the modules above in their own process.
TESTS = (
    *("accounting", "accounting_reports", "chain_roots", "chains_of_rounds"),
    *("comparison", "comparison_of_chains", "histogram", "json", "packet_losses"),
    *("page", "percentiles", "pmds", "round_comparison", "rounds", "sleep_reasons"),
    *("sleeps", "several_processes_text", "spread", "states", "text", "timeline"),
    *("round_figures", "totals", "verdict"),
    *("verdict_asleep", "verdict_chain_end", "verdict_chains", "verdict_doubts"),
    *("verdict_each_call", "verdict_files", "verdict_gain", "verdict_own_cost"),
    *("verdict_sentences", "verdict_truth", "verdict_wait_chain"),
)
BESIDE = ("bench", "docs", "lab", "setup", "tests")

# As `mutmut results` prints them. The name is the module's, `x_` or `xǁCLASSǁ`, the function's and
# a number.
RESULT = re.compile(r"^ +(?P<module>[\w.]+)\.x(?P<name>[_ǁ].+)__mutmut_\d+: (?P<status>[\w ]+)$")
# How a run ends that saw the error. One without end is seen, by whoever waits for it.
SEEN = ("killed", "timeout", "segfault")


def run(folder: Path, only: Sequence[str], jobs: int, when: str) -> Mutated:
    """Put each error in, and count those that tests saw.

    Args:
        folder: Where to work; what was there goes.
        only: Modules of `MUTATED`, as analysis.percentiles; all if there are none.
        jobs: How many mutants are tried at a time.
        when: The day and commit, for the results.

    Raises:
        MutantsError: The tests fail without any error, or mutmut itself does.
    """
    _prepare(folder)
    mutmut = str(Path(sys.executable).with_name("mutmut"))
    with open(folder / "log", "wb") as log:
        status = subprocess.call(
            [
                mutmut,
                "run",
                "--max-children",
                str(jobs),
                *(f"kernel_delay.{module}.*" for module in only),
            ],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    if status:
        raise MutantsError((folder / "log").read_text(errors="replace")[-2000:])
    results = subprocess.run(
        [mutmut, "results", "--all", "true"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return count(results.stdout, when)


def count(results: str, when: str) -> Mutated:
    """Count what `mutmut results --all true` prints, module by module."""
    counted: dict[str, Counted] = {}
    for line in results.splitlines():
        found = RESULT.match(line)
        if found is None or found["status"] == "not checked":
            continue
        module = counted.setdefault(found["module"].removeprefix("kernel_delay."), Counted(when))
        module.mutants += 1
        if found["status"] in SEEN:
            module.killed += 1
        else:
            function = found["name"].strip("_ǁ").replace("ǁ", ".")
            module.survivors[function] = module.survivors.get(function, 0) + 1
    return counted


def _prepare(folder: Path) -> None:
    """Lay out what mutmut takes: the package as it is installed, with its extensions, and tests."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        Path(kernel_delay.__file__).parent,
        folder / "src" / "kernel_delay",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in BESIDE:
        (folder / name).symlink_to(PROJECT / name)
    settings = {
        "source_paths": ["src/"],
        "only_mutate": [f"src/kernel_delay/{each}" for each in MUTATED],
        "also_copy": [f"{name}/" for name in BESIDE],
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": [f"tests/unit/test_{name}.py" for name in TESTS],
    }
    lines = [f"{name} = {value!r}" for name, value in settings.items()]
    (folder / "pyproject.toml").write_text("\n".join(["[tool.mutmut]", *lines, ""]))
