"""What the integration tests came to on each kernel, and the tables of it."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

REASON_LINES = 3
"""So many of a failure's lines are enough to tell it: an assertion's message, and its values."""


class Outcome(Enum):
    """How a test ended; as the tables print it."""

    PASSED = "passed"
    FAILED = "FAILED"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "NOT RUN"


@dataclass(frozen=True)
class Result:
    """A test's outcome on one kernel; `reason` says why it is not applicable or failed."""

    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True)
class KernelRun:
    """All results on one kernel, by test; `failure` says why a run did not end as it should."""

    name: str
    release: str
    results: dict[str, Result]
    failure: str = ""

    @property
    def passed(self) -> bool:
        """Whether the run ended, at least one test passed and none failed."""
        outcomes = {result.outcome for result in self.results.values()}
        return not self.failure and Outcome.PASSED in outcomes and Outcome.FAILED not in outcomes

    def result(self, test: str) -> Result:
        """The test's result; a test that another kernel ran and this one did not is NOT_RUN."""
        return self.results.get(test, Result(Outcome.NOT_RUN, self.failure))


def read_junit(junit: Path) -> dict[str, Result]:
    """The results in pytest's junit file, by `file.py::function`.

    The variants of a parametrized test are one test: it fails if one fails,
    and is not applicable only if no variant is.
    """
    results: dict[str, Result] = {}
    for case in ET.parse(junit).iter("testcase"):
        file = case.get("classname", "").rpartition(".")[2] or "(collection)"
        test = f"{file}.py::{case.get('name', '').partition('[')[0]}"
        result = _result(case)
        if test not in results or _weight(result) > _weight(results[test]):
            results[test] = result
    return results


def _result(case: ET.Element) -> Result:
    for tag in ("failure", "error"):
        if (failure := case.find(tag)) is not None:
            _, bracket, variant = case.get("name", "").partition("[")
            reason = f"{bracket}{variant} {failure.get('message', '')}"
            return Result(Outcome.FAILED, reason.strip())
    if (skipped := case.find("skipped")) is not None:
        return Result(Outcome.NOT_APPLICABLE, skipped.get("message", ""))
    return Result(Outcome.PASSED)


def _weight(result: Result) -> int:
    return [Outcome.NOT_APPLICABLE, Outcome.PASSED, Outcome.FAILED].index(result.outcome)


def all_tests(runs: list[KernelRun]) -> list[str]:
    """Every test that ran on any kernel, sorted."""
    return sorted({test for run in runs for test in run.results})


def failures(run: KernelRun) -> list[str]:
    """A line for each test that failed: which, and why, as far as REASON_LINES go."""
    return [
        f"{test}: {' | '.join(result.reason.splitlines()[:REASON_LINES])}"
        for test, result in sorted(run.results.items())
        if result.outcome is Outcome.FAILED
    ]


def reasons(runs: list[KernelRun]) -> dict[str, int]:
    """The reasons why tests are not applicable, each with the number of its footnote."""
    notes: dict[str, int] = {}
    for test in all_tests(runs):
        for run in runs:
            result = run.result(test)
            if result.outcome is Outcome.NOT_APPLICABLE:
                notes.setdefault(result.reason, len(notes) + 1)
    return notes


def cell(result: Result, notes: dict[str, int]) -> str:
    """A table's cell: the outcome, with its footnote's number where it has one."""
    number = notes.get(result.reason)
    return f"{result.outcome.value} ({number})" if number else result.outcome.value
