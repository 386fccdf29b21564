"""Two sets of long rounds compared: what of the one is more, and whether that is beyond chance.

As in comparison.py; but a round is of one thread, and of a cause that may not be another's. So
what few rounds have in common means little, and a change is claimed only where there are so many
of a class that to deal them out to the two sides by lot would seldom have made it (spread.py).
"""

from collections.abc import Mapping

from msgspec import structs

from kernel_delay.analysis.comparison import (
    MINOR,
    MISTAKES,
    Comparison,
    change_of,
    one_sided,
    unknown_change,
)
from kernel_delay.analysis.figures import Figure, Key
from kernel_delay.analysis.round_figures import LENGTH, RoundFigures, needs
from kernel_delay.analysis.spread import separable


def compare_rounds(before: RoundFigures, after: RoundFigures) -> Comparison:
    """Compare two sets of rounds."""
    one, other = before.rounds(), after.rounds()
    rounds = {name: (one.get(name, 0), other.get(name, 0)) for name in sorted({*one, *other})}
    pairs = _pairs(before, after, rounds)
    chance = MISTAKES / max(1, len(pairs))
    few = tuple(
        name for name, counts in rounds.items() if all(counts) and not separable(*counts, chance)
    )
    changes = [
        unknown_change(key, *pair) if key.threads in few else change_of(key, *pair, chance)
        for key, pair in pairs.items()
    ]
    changes.sort(key=lambda change: (-change.matters, change.name != LENGTH))
    return Comparison(
        before.samples,
        after.samples,
        rounds,
        tuple(changes),
        "rounds",
        few,
        _enough(chance),
        one_sided(before, after),
    )


def _pairs(
    before: RoundFigures, after: RoundFigures, rounds: Mapping[str, tuple[int, int]]
) -> dict[Key, tuple[Figure, Figure]]:
    """The figures of the classes that are on both sides, but for what is of next to no time."""
    found = {}
    left_out = one_sided(before, after)
    for threads in (name for name, counts in rounds.items() if all(counts)):
        for name in sorted(before.names(threads) | after.names(threads)):
            if needs(name) in left_out:
                continue
            one, other = before.figure(threads, name), after.figure(threads, name)
            if one is None or other is None:
                continue
            pair = _weighed(one, other)
            if max(figure.estimate.value * figure.weight for figure in pair) >= MINOR:
                found[Key(threads, name)] = pair
    return found


def _weighed(one: Figure, other: Figure) -> tuple[Figure, Figure]:
    """Weigh both by the longer rounds: a change is never of more than all of a round."""
    weight = min((each for each in (one.weight, other.weight) if each), default=0.0)
    return structs.replace(one, weight=weight), structs.replace(other, weight=weight)


def _enough(chance: float) -> int:
    """How many rounds of each side are enough."""
    count = 2
    while not separable(count, count, chance):
        count += 1
    return count
