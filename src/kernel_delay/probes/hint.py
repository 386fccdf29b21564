"""The names that exist, said next to one that does not."""

from collections.abc import Iterable


def hint(names: Iterable[str]) -> str:
    """Say them at the end of an error's line; nothing if there are none."""
    listed = ", ".join(names)
    return f"; closest: {listed}" if listed else ""
