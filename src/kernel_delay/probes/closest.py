"""The names that exist, next to one that does not."""

import difflib
from collections.abc import Iterable
from itertools import islice

_MAX_NAMES = 200_000
"""More than a kernel has functions, and so many compare in two seconds."""


def closest(name: str, names: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Name the at most `count` of `names` that are most like `name`, the best first."""
    return tuple(difflib.get_close_matches(name, set(islice(names, _MAX_NAMES)), count))


def hint(names: Iterable[str]) -> str:
    """Say them at the end of an error's line; nothing if there are none."""
    listed = ", ".join(names)
    return f"; closest: {listed}" if listed else ""
