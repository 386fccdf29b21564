"""Conditions on a comparison, such as `ready>+5%`: which changes are too large."""

import re

from msgspec import Struct

from kernel_delay.analysis.comparison import LEAST_SAMPLES, Change, Comparison
from kernel_delay.errors import InputError, UsageError

FORM = "[THREADS:]FIGURE>+N% or [THREADS:]FIGURE<-N%"

_CONDITION = re.compile(
    r"(?:(?P<threads>.+):)?(?P<name>[^:<>]+?)\s*(?P<side>>\s*\+|<\s*-)(?P<limit>\d+(?:\.\d+)?)\s*%"
)


class Condition(Struct, frozen=True):
    """That a figure changes by more than `limit`: of a share points, of others a part.

    `threads` is a class of threads, None for each. Negative: that it falls by more than that.
    """

    text: str
    threads: str | None
    name: str
    limit: float

    def concerns(self, change: Change) -> bool:
        """Whether the figure is the condition's."""
        return self.name == change.name and self.threads in (None, change.threads)

    def is_met(self, change: Change) -> bool:
        """Whether it changed so much, and not by chance: no change is outside of its interval."""
        if not self.concerns(change):
            return False
        if self.limit < 0:
            by_chance = change.high is None or change.high >= 0
            return not by_chance and change.change is not None and change.change < self.limit
        # What came from nothing grew beyond any limit.
        grown = change.change is None or change.change > self.limit
        return grown and (change.low > 0 or (change.change is None and change.kind != "unclear"))


def parse_condition(text: str) -> Condition:
    """Read a condition in FORM. Raises UsageError where it is none."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"a condition is {FORM}, as ready>+5% or main:write.mean>+10%: {text!r}")
    limit = float(found["limit"]) / 100
    return Condition(
        text, found["threads"], found["name"], -limit if "<" in found["side"] else limit
    )


def check_samples(comparison: Comparison) -> None:
    """Raise InputError where there are too few samples to judge any condition."""
    if comparison.of == "rounds":
        return
    if min(comparison.before_samples, comparison.after_samples) < LEAST_SAMPLES:
        raise InputError(
            "--fail-if needs at least two samples of each side to distinguish change from chance"
        )


def met(conditions: list[Condition], comparison: Comparison) -> list[tuple[Condition, Change]]:
    """Which conditions are met, and by which changes.

    Raises UsageError for a condition on a figure that there is not, and InputError for one of which
    there are too few rounds: these could never be met.
    """
    for condition in conditions:
        concerned = [change for change in comparison.changes if condition.concerns(change)]
        if not concerned:
            raise UsageError(
                f"{condition.text!r} names no figure that both recordings have: --all lists them"
            )
        if all(change.threads in comparison.few for change in concerned):
            raise InputError(
                f"{condition.text!r} has too few rounds to distinguish change from chance: it needs"
                f" {comparison.enough} of each side"
            )
    return [
        (condition, change)
        for condition in conditions
        for change in comparison.changes
        if condition.is_met(change)
    ]
