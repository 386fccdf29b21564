"""How often something happened, and how long it lasted."""

from msgspec import Struct

Histogram = tuple[int, ...]
"""How many intervals lasted from 2^i up to 2^(i+1) ns, for each index i.

All from 2^31 ns on are at index 31, and one of 0 ns at 0. Zeros at the end are
left out, so it is empty when nothing was counted or accounting was off.
"""


class Intervals(Struct, frozen=True, gc=False):
    """How often something happened within the window, and how long it took.

    Attributes:
        count: How often. At least 1.
        total_ns: The sum of the lengths, in ns.
        min_ns: The shortest, in ns.
        max_ns: The longest, in ns.
        histogram: Index i counts lengths from 2^i up to 2^(i+1) ns. Zeros at the end are left out.
    """

    count: int
    total_ns: int
    min_ns: int
    max_ns: int
    histogram: Histogram = ()
