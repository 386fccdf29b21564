"""Two sets of Samples compared: what changed, beyond what chance and a little more explain.

Each figure (figures.py) has an interval for its change, from how it strays from sample to sample
(spread.py). The intervals hold together: with a probability of 95 % each of all of them has the
true change in it (Bonferroni's inequality: of k figures, each may miss it with 5 % / k). A
change is claimed only where the whole interval is beyond the tolerance, as two measurements of
the same load differ by a little more than chance; and only of what the threads' time is of, for
a call of 200 ns takes 300 the next time, as caches have it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Literal, Protocol, get_args

from msgspec import Struct, field, structs

from kernel_delay.analysis.figures import (
    LEAST_COUNT,
    ROOT,
    Figure,
    Figures,
    Key,
    Unit,
    Unmeasured,
)
from kernel_delay.analysis.spread import Estimate, difference, quotient

MISTAKES = 0.05
"""The probability that any of the intervals lacks the true change."""

TOLERANCE = 0.05
"""Of lengths and rates, as a part of what they were."""

SHARE_TOLERANCE = 0.01
"""Of shares: a point."""

P99_TOLERANCE = 1.0
"""Of percentiles: twice. Only the powers of two are known that they lie between."""

MINOR = 0.001
"""A change of less than that part of the threads' time is minor."""

LEAST_SAMPLES = 2

# A share that is nowhere above this is nobody's concern.
_LEAST_SHARE = 0.0005

ChangeKind = Literal["more", "less", "minor", "same", "unclear"]
"""`more` or `less`, beyond the tolerance and beyond chance, or of next to no time: `minor`;
`same` within the tolerance; else unclear."""


class Change(Struct, frozen=True):
    """A figure before and after.

    `unit` says of what both are: shares of 1, lengths in ns, counts a second (per_s), or counts of
    a round (count). `change`, and
    the interval from `low` to `high` it is in, are a difference of shares, or of others the
    part by which `after` is more than `before`; None where that has no end. `matters` is
    what share of the threads' time the change is of.
    """

    threads: str
    name: str
    unit: Unit
    kind: ChangeKind
    before: float
    after: float
    change: float | None
    low: float
    high: float | None
    matters: float


class Comparison(Struct, frozen=True):
    """All figures that are on both sides, what matters most first.

    `before_samples` and `after_samples` are how many there are. Below two of each nothing can
    be claimed, and there are no changes. `threads` has how many threads of each class there
    were, before and after.

    Of `rounds` that is how many rounds of each class: `few` are the classes of which these are too
    few, so that nothing is claimed of their changes; `enough` of each side were not.

    `unmeasured` is what the one side did not measure, and which side that is.
    """

    before_samples: int
    after_samples: int
    threads: Mapping[str, tuple[int, int]]
    changes: tuple[Change, ...] = ()
    of: Literal["windows", "rounds"] = "windows"
    few: tuple[str, ...] = ()
    enough: int = LEAST_SAMPLES
    unmeasured: Mapping[Unmeasured, Literal["before", "after"]] = field(default_factory=dict)


class Measured(Protocol):
    """What is known of a side: how many samples it has, and how many of them lack something."""

    samples: int
    unmeasured: Counter[Unmeasured]


def one_sided(before: Measured, after: Measured) -> dict[Unmeasured, Literal["before", "after"]]:
    """What one side lacks, or lacks in more of its samples: nothing can be said of a change."""
    found: dict[Unmeasured, Literal["before", "after"]] = {}
    for what in get_args(Unmeasured):
        one = before.unmeasured[what] * after.samples
        other = after.unmeasured[what] * before.samples
        if one != other:
            found[what] = "before" if one > other else "after"
    return found


def compare(before: Figures, after: Figures) -> Comparison:
    """Compare two sets of samples."""
    threads = {
        name: (before.threads().get(name, 0), after.threads().get(name, 0))
        for name in sorted({*before.threads(), *after.threads()})
    }
    comparison = Comparison(
        before.samples, after.samples, threads, unmeasured=one_sided(before, after)
    )
    if min(before.samples, after.samples) < LEAST_SAMPLES:
        return comparison
    pairs = _pairs(before.figures(), after.figures(), threads)
    changes = [change_of(key, *pair, MISTAKES / len(pairs)) for key, pair in pairs.items()]
    idle = {key for key, pair in pairs.items() if pair[1].idle}
    changes.sort(key=lambda change: (Key(change.threads, change.name) in idle, -change.matters))
    return structs.replace(comparison, changes=tuple(changes))


def tolerance(change: Change) -> float:
    """By how much a figure may differ and is the same: a part of it, or of a share points."""
    if change.unit == "share":
        return SHARE_TOLERANCE
    return P99_TOLERANCE if change.name.endswith(".p99") else TOLERANCE


def _pairs(
    before: Mapping[Key, Figure],
    after: Mapping[Key, Figure],
    threads: Mapping[str, tuple[int, int]],
) -> dict[Key, tuple[Figure, Figure]]:
    """What can be compared: figures of threads that were there on both sides."""
    found = {}
    have_chains = all(any(key.name.startswith(ROOT) for key in side) for side in (before, after))
    for key in sorted({*before, *after}):
        if not all(threads[key.threads]):
            continue
        if key.name.startswith(ROOT) and not have_chains:
            # That they were not looked for does not mean that there were none.
            continue
        one, other = before.get(key), after.get(key)
        known = one or other
        assert known is not None
        if known.unit == "ns" and not (one and other):
            continue
        if known.unit == "share" and not key.name.startswith(ROOT) and not (one and other):
            # An account has all states: one side has none of these threads.
            continue
        counts = [side.count or 0 for side in (one, other) if side is not None]
        if known.unit == "per_s" and max(counts) < LEAST_COUNT:
            continue
        one, other = one or _none(known, before), other or _none(known, after)
        least = _LEAST_SHARE if known.unit == "share" else 0.0
        if max(one.estimate.value, other.estimate.value) <= least:
            continue
        found[key] = (one, other)
    return found


def _none(known: Figure, side: Mapping[Key, Figure]) -> Figure:
    """A rate of nothing: what was seen on the other side alone."""
    samples = max((figure.estimate.samples for figure in side.values()), default=1)
    return structs.replace(known, estimate=Estimate(0.0, known.estimate.variance, samples))


def change_of(key: Key, before: Figure, after: Figure, chance: float) -> Change:
    """What became of a figure; its interval is wrong with a probability of `chance`."""
    return _without_minor(_change(key, before, after, chance))


def unknown_change(key: Key, before: Figure, after: Figure) -> Change:
    """The same where nothing is known of chance: the interval is all that there can be."""
    one, other = before.estimate.value, after.estimate.value
    share = before.unit == "share"
    change = other - one if share else other / one - 1 if one else None
    return Change(
        threads=key.threads,
        name=key.name,
        unit=before.unit,
        kind="unclear",
        before=one,
        after=other,
        change=change,
        low=-1.0,
        high=1.0 if share else None,
        matters=_matters(before, after),
    )


def _matters(before: Figure, after: Figure) -> float:
    """What share of the threads' time the change is of: no more than the figure itself is of.

    Of calls that got shorter and more, or longer and fewer, the product is of neither side.
    """
    one, other = before.estimate.value, after.estimate.value
    most = max(one * before.weight, other * after.weight)
    return min(abs(other - one) * max(before.weight, after.weight), most, 1.0)


def _change(key: Key, before: Figure, after: Figure, chance: float) -> Change:
    one, other = before.estimate, after.estimate
    known = unknown_change(key, before, after)
    if before.unit == "share":
        low, high = difference(one, other, chance)
        # A share is from 0 to 1, and no difference of two is farther apart.
        low, high = max(low, -1.0), min(high, 1.0)
        kind = _kind(low, high, -tolerance(known), tolerance(known))
        return structs.replace(known, kind=kind, low=low, high=high)
    if not one.value or not other.value:
        return _from_or_to_nothing(known, one, other, chance)
    low, high = (bound - 1 for bound in quotient(one, other, chance))
    kind = _kind(low, high, 1 / (1 + tolerance(known)) - 1, tolerance(known))
    return structs.replace(known, kind=kind, low=low, high=high)


def _from_or_to_nothing(known: Change, one: Estimate, other: Estimate, chance: float) -> Change:
    """A change that has no quotient: of what was not there before, or is not any more."""
    low, high = difference(one, other, chance)
    if other.value:
        # It grew from nothing, so there is no ratio.
        grew = low > 0
        return structs.replace(known, kind="more" if grew else "unclear", low=0.0 if grew else -1.0)
    if not one.value or high >= 0:
        return known
    high /= one.value
    kind = _kind(-1.0, high, 1 / (1 + tolerance(known)) - 1, tolerance(known))
    return structs.replace(known, kind=kind, high=high)


def _without_minor(change: Change) -> Change:
    is_minor = change.kind in ("more", "less") and change.matters < MINOR
    return structs.replace(change, kind="minor") if is_minor else change


def _kind(low: float, high: float, least: float, most: float) -> ChangeKind:
    if low > most:
        return "more"
    if high < least:
        return "less"
    return "same" if least <= low and high <= most else "unclear"
