"""docs/reference/mutants.md: python -m tests.mutants.page, from results.json and survivors.toml."""

import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, convert

from tests.mutants.in_bpf import listed
from tests.mutants.outcomes import Mutated, Outcomes, count_seen, read

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mutants.md"
REASONS = Path(__file__).with_name("survivors.toml")

HEAD = """\
# Do the tests see an error?

A *mutant* is this program with one small error. A good test fails with it; then the mutant is
*seen*. A mutant that no test sees has *survived*. `make test-mutants` makes the mutants, runs the
tests on each, and writes this page. Do not edit the page.
"""

PYTHON = """
## Python

[mutmut](https://github.com/boxed/mutmut) changes one constant, operator, argument or default in a
function. The modules here are those that judge: analysis, verdict and accounting. Only unit tests
look for these errors, and a test that starts the command does not count. What reads the programs'
records is left to the integration tests, which mutmut cannot run. A run that was ended early has
not tried all mutants of a module.

| module | tried | seen | | run on, at commit |
|---|---:|---:|---:|---|
"""

SURVIVORS = """
## Survivors in Python

The numbers count mutants of a function that no test saw.
"""

BPF = """
## BPF programs

The {listed} errors in `tests/mutants/bpf.toml` were written by hand. Each names the tests that have
to see it. They pass before, and run again with the error on the machine's own kernel. {mutants}
were tried, and {killed} of these were seen.

| program | what is wrong in it | outcome | run on, at commit |
|---|---|---|---|
"""

BPF_SURVIVORS = """
## Survivors in BPF programs

"""

_OUTCOMES = {"killed": "seen", "survived": "survived"}


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why the mutants of some functions survive; `functions` are patterns of MODULE.FUNCTION."""

    functions: tuple[str, ...]
    why: str

    def is_of(self, function: str) -> bool:
        """Whether it is the reason for this one."""
        return any(fnmatchcase(function, pattern) for pattern in self.functions)


def reasons() -> tuple[Reason, ...]:
    """Those of survivors.toml; the first that is for a function counts."""
    return convert(tomllib.loads(REASONS.read_text())["survivor"], tuple[Reason, ...])


def survivors(mutated: Mutated) -> dict[str, int]:
    """How many survived, by MODULE.FUNCTION."""
    return {
        f"{module}.{function}": count
        for module, counted in sorted(mutated.items())
        for function, count in sorted(counted.survivors.items())
    }


def page(outcomes: Outcomes) -> str:
    """Write the page."""
    killed = sum(each.outcome == "killed" for each in outcomes.bpf)
    parts = [HEAD, PYTHON, *_modules(outcomes.python), SURVIVORS, *_survivors(outcomes.python)]
    parts += [BPF.format(listed=len(listed()), mutants=len(outcomes.bpf), killed=killed)]
    parts += [
        f"| `{each.file}` | {each.what} | {_OUTCOMES[each.outcome]} | {each.when} |\n"
        for each in outcomes.bpf
    ]
    return "".join([*parts, BPF_SURVIVORS, *_bpf_survivors(outcomes)])


def _bpf_survivors(outcomes: Outcomes) -> Iterator[str]:
    why = {(each.file, each.what): each.survives for each in listed()}
    for each in outcomes.bpf:
        if each.outcome == "survived":
            reason = why[each.file, each.what] or "A further test could see it."
            yield f"- `{each.file}`, {each.what}. {reason}\n"


def _modules(mutated: Mutated) -> Iterator[str]:
    for name, module in sorted(mutated.items()):
        yield _row(f"`{name}`", module.mutants, module.killed, module.when)
    killed, tried = count_seen(mutated)
    yield _row("all", tried, killed, "")


def _row(name: str, mutants: int, killed: int, when: str) -> str:
    return f"| {name} | {mutants:,} | {killed:,} | {killed / max(mutants, 1):.1%} | {when} |\n"


def _survivors(mutated: Mutated) -> Iterator[str]:
    left = survivors(mutated)
    for reason in reasons():
        found = {function: count for function, count in left.items() if reason.is_of(function)}
        left = {function: count for function, count in left.items() if function not in found}
        if found:
            yield f"\n{reason.why}\n\n" + _listed(found)
    if left:
        yield "\nOthers, which a further test could see:\n\n" + _listed(left)


def _listed(functions: dict[str, int]) -> str:
    return "".join(f"- `{function}`: {count}\n" for function, count in functions.items())


def main() -> int:
    """Write it."""
    PAGE.write_text(page(read()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
