"""What the integration tests came to on each kernel."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

DIED = "the guest ended during this test"

LINE_CHARACTERS = 300
"""So much of a failure is printed at the end; the table and the guest's console have all."""


class Outcome(Enum):
    """How a test ended; the least comes first, and of two the greater one counts."""

    NOT_APPLICABLE = "not applicable"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True)
class Result:
    """A test's outcome on one kernel; `reason` says why it is not applicable or failed."""

    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True)
class KernelRun:
    """What one guest came to.

    Attributes:
        name: The kernel's, in kernels.toml.
        release: What `uname -r` says in the guest; empty if there was none.
        results: By the tests' names, as pytest has them.
        failure: Why the run did not end as it should; empty if it did.
        not_run: Why there was no guest; empty if there was one.
    """

    name: str
    release: str
    results: dict[str, Result]
    failure: str = ""
    not_run: str = ""

    @property
    def passed(self) -> bool:
        """Whether the run ended, at least one test passed and none failed."""
        outcomes = {result.outcome for result in self.results.values()}
        return not self.failure and Outcome.PASSED in outcomes and Outcome.FAILED not in outcomes


def read_outcomes(path: Path) -> dict[str, Result]:
    """The results in a file that tests.kernels.outcomes wrote, by pytest's names of the tests.

    A test that passed and whose fixture then fails has failed. So has one that did not end.
    """
    results: dict[str, Result] = {}
    begun: dict[str, None] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        test = entry["test"]
        if entry["outcome"] == "begun":
            begun[test] = None
            continue
        result = Result(Outcome(entry["outcome"]), entry["reason"])
        if test not in results or _weight(result) > _weight(results[test]):
            results[test] = result
    died = {test: Result(Outcome.FAILED, DIED) for test in begun if test not in results}
    return {**results, **died}


def _weight(result: Result) -> int:
    return list(Outcome).index(result.outcome)


def failures(run: KernelRun) -> list[str]:
    """A line for each test that failed: which, and why."""
    return [
        f"{test}: {result.reason}"
        for test, result in sorted(run.results.items())
        if result.outcome is Outcome.FAILED
    ]


def closing_lines(run: KernelRun) -> list[str]:
    """What failed, a line each, as pytest closes its own: short, for the end of a long log."""
    whole = [run.failure] if run.failure else []
    lines = (f"FAILED {run.name}: {failure}" for failure in [*whole, *failures(run)])
    return [line[:LINE_CHARACTERS] for line in lines]


def footnotes(results: Iterable[Result]) -> dict[str, int]:
    """The reasons why tests are not applicable, each with the number of its footnote."""
    notes: dict[str, int] = {}
    for result in results:
        if result.outcome is Outcome.NOT_APPLICABLE:
            notes.setdefault(result.reason, len(notes) + 1)
    return notes


def tally(results: Iterable[Result], notes: dict[str, int]) -> str:
    """How many of a file's tests passed, were not applicable, failed: a table's cell.

    What is none is left out, and nothing at all is a dash: `12`, or `10, 2 n/a [1], 1 FAILED`.
    """
    results = list(results)
    counts = Counter(result.outcome for result in results)
    parts = []
    if counts[Outcome.PASSED]:
        parts.append(str(counts[Outcome.PASSED]))
    if number := counts[Outcome.NOT_APPLICABLE]:
        parts.append(f"{number} n/a [{', '.join(map(str, sorted(_numbers(results, notes))))}]")
    if number := counts[Outcome.FAILED]:
        parts.append(f"{number} FAILED")
    return ", ".join(parts) or "-"


def _numbers(results: list[Result], notes: dict[str, int]) -> set[int]:
    return {notes[each.reason] for each in results if each.outcome is Outcome.NOT_APPLICABLE}
