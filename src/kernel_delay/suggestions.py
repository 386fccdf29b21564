"""The names most like one that does not exist, for an error's text."""

import difflib
import heapq
from collections.abc import Iterable

CANDIDATES = 64
"""difflib takes 0.2 ms a name: it orders only this many, those with most letter pairs in common."""


def similar_names(name: str, names: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Find up to `count` of `names` that are most like `name`, the best first; none if unlike."""
    pairs = {name[i : i + 2] for i in range(len(name) - 1)} or {name}

    def likeness(other: str) -> float:
        return sum(pair in other for pair in pairs) / (len(name) + len(other))

    candidates = heapq.nlargest(CANDIDATES, names, key=likeness)
    return tuple(difflib.get_close_matches(name, candidates, count))


def hint(names: Iterable[str]) -> str:
    """Say `names` at the end of an error's line; nothing if there are none."""
    listed = ", ".join(names)
    return f"; closest: {listed}" if listed else ""
