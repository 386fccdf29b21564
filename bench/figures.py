"""Figures: what was measured, of whom, in what case; and all of a run, as results.json has it."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Self

from msgspec import Struct


class Figure(Struct, frozen=True):
    """One quantity, measured `values` times, for one peer in one case.

    `spread` is the distance between the quartiles of the values, 0 for one
    value. Both it and `median` are of all values; in `unit`.
    """

    case: str
    peer: str
    unit: str
    median: float
    spread: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, case: str, peer: str, unit: str, values: Sequence[float]) -> Self:
        """Make one of its values; there must be one at least."""
        rounded = tuple(significant(value) for value in values)
        median, spread = statistics.median(rounded), quartile_distance(rounded)
        return cls(case, peer, unit, significant(median), significant(spread), rounded)


class Values:
    """Values as they come in, by case and peer."""

    def __init__(self) -> None:
        """None yet."""
        self._values: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def note(self, case: str, peer: str, unit: str, value: float) -> None:
        """Add one."""
        self._values[case, peer, unit].append(value)

    def figures(self) -> list[Figure]:
        """Make a figure of each case and peer, in the order they first came."""
        return [Figure.of(*key, values) for key, values in self._values.items()]


class Absence(Struct, frozen=True):
    """A peer that could not be measured, and why."""

    peer: str
    reason: str


class Earlier(Struct, frozen=True):
    """What was not measured again: figures of a peer, all or those of `what` alone."""

    peer: str
    what: str
    when: str
    version: str


class BesideWork(Struct, frozen=True):
    """A peer that was measured while its machine had other work, and that machine's CPU."""

    peer: str
    cpu: str


class Measured(Struct, frozen=True):
    """The figures of one measure: when (UTC), and of which version of the sources.

    `earlier`: the figures that are of another time and version. `beside_work`: the peers whose
    other times are of a machine that had other work too, and its CPU.
    """

    when: str
    version: str
    figures: tuple[Figure, ...]
    absent: tuple[Absence, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    beside_work: tuple[BesideWork, ...] = ()

    def figure(self, case: str, peer: str) -> Figure | None:
        """Return that figure, None where it was not measured."""
        for figure in self.figures:
            if (figure.case, figure.peer) == (case, peer):
                return figure
        return None


class Machine(Struct, frozen=True):
    """Where a run was made."""

    cpu: str
    cpus: int
    virtual: str
    memory_gib: float
    kernel: str
    system: str


class Results(Struct, frozen=True):
    """All of results.json: the measures by name."""

    machine: Machine
    measures: dict[str, Measured]

    def figure(self, measure: str, case: str, peer: str) -> Figure | None:
        """Return that figure, None where it was not measured."""
        measured = self.measures.get(measure)
        return measured.figure(case, peer) if measured else None


def significant(value: float) -> float:
    """Keep six digits, more than any figure is worth."""
    return float(f"{value:.6g}")


def quartile_distance(values: Sequence[float]) -> float:
    """Return the distance between the first and the third quartile."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def ratio(part: Figure | None, whole: Figure | None) -> float | None:
    """Return the ratio of two medians; None where one is missing or the divisor is none."""
    if part is None or whole is None or whole.median <= 0:
        return None
    return part.median / whole.median
