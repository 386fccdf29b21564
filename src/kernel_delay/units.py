"""Nanoseconds in larger units, lengths for people, and how much is measured at most.

All times that were measured are in ns.
"""

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


_NS_PER_S = 1_000_000_000
_UNITS = (("s", _NS_PER_S), ("ms", 1_000_000), ("µs", 1_000))

# From here on minutes say more than seconds.
_LONG_S = 1_000
_S_PER_MINUTE, _S_PER_HOUR, _S_PER_DAY = 60, 3_600, 86_400


def brief(ns: int) -> str:
    """Return a length as `353 ms`, and from 1,000 s on as `2 h 13 min`."""
    seconds = ns // _NS_PER_S
    if seconds >= _LONG_S:
        return _long(seconds)
    for unit, size in _UNITS:
        value = ns / size
        # What is rounded to 1 of a unit is one.
        if value >= 0.9995:
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
    return f"{ns} ns"


def _long(seconds: int) -> str:
    if seconds >= _S_PER_DAY:
        return f"{seconds // _S_PER_DAY:,} d {seconds % _S_PER_DAY // _S_PER_HOUR} h"
    hours, minutes = seconds // _S_PER_HOUR, seconds % _S_PER_HOUR // _S_PER_MINUTE
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


LONGEST_S = 7 * 24 * 3600
"""A week. Longer is taken for a slip, as of nanoseconds given for seconds."""

MAX_EVENTS = 1_000_000
MAX_STACKS = 4096
STACK_BYTES = 98304
