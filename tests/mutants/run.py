"""python -m tests.mutants.run: put small errors into the code, one at a time. Do tests see them?

Prints what became of each module's and each program's, and keeps it in results.json. Exits with 1
if less than 90 % of either kind were seen.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.mutants import in_bpf, in_python, outcomes

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "build" / "mutants"
TO_REACH = 0.9


def share(killed: int, mutants: int) -> str:
    """So many of so many."""
    return f"{killed:,} of {mutants:,} seen, {killed / max(mutants, 1):.1%}"


def try_python(only: Sequence[str], when: str) -> bool:
    """Try those of Python; print a line for each module, and whether enough were seen."""
    mutated = in_python.run(FOLDER / "python", only, jobs=2, when=when)
    for name, module in sorted(mutated.items()):
        print(f"{name:40} {share(module.killed, module.mutants)}")
    outcomes.keep_python(mutated)
    return sum_up(*outcomes.count_seen(mutated))


def try_bpf(only: Sequence[str], when: str, *, left: bool = False) -> bool:
    """Try those of the BPF programs; print a line for each, and whether enough were seen."""
    mutants = [each for each in in_bpf.listed() if not only or each.file in only]
    if left:
        tried = {(each.file, each.what) for each in outcomes.read().bpf}
        mutants = [each for each in mutants if (each.file, each.what) not in tried]
    killed = 0
    for mutant in in_bpf.run(FOLDER / "tree", mutants, when):
        print(f"{mutant.outcome}: {mutant.file}: {mutant.what}", flush=True)
        killed += mutant.outcome == "killed"
        outcomes.keep_bpf(mutant)
    return sum_up(killed, len(mutants))


def sum_up(killed: int, mutants: int) -> bool:
    """Print how many were seen; whether that is enough."""
    print(share(killed, mutants))
    return killed >= TO_REACH * mutants


def main() -> int:
    """Try both kinds, or one; keep what became of all, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument("kind", nargs="?", choices=["python", "bpf"], help="only this kind")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="modules, or files")
    parser.add_argument("--left", action="store_true", help="of BPF those without a result")
    options = parser.parse_args()
    command = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.check_output(command, cwd=PROJECT, text=True).strip()
    when = f"{time.strftime('%Y-%m-%d')}, {commit}"
    kinds: dict[str, Callable[[Sequence[str], str], bool]] = {
        "python": try_python,
        "bpf": partial(try_bpf, left=options.left),
    }
    try:
        enough = [
            tries(options.only, when)
            for kind, tries in kinds.items()
            if options.kind in (None, kind)
        ]
    except outcomes.MutantsError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 1
    return int(not all(enough))


if __name__ == "__main__":
    sys.exit(main())
