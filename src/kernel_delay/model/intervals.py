"""How often something happened, and how long it lasted."""

from msgspec import Struct

Histogram = tuple[int, ...]
"""How many intervals lasted from 2^i up to 2^(i+1) ns, for each index i.

All from 2^31 ns on are at index 31, and one of 0 ns at 0. Zeros at the end are
left out, so it is empty when nothing was counted or accounting was off.
"""


class Intervals(Struct, frozen=True):
    """How often something lasted from a start to a stop within the window, and how long.

    `count` is at least 1: where nothing was counted there is no Intervals.
    """

    count: int
    total_ns: int
    min_ns: int
    max_ns: int
    histogram: Histogram = ()
