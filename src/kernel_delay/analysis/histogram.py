"""Histograms and percentiles of integers that are never all kept.

Counts go into buckets as the values come, so that hours of events need no more
memory than a second of them; only equal_width() wants the values themselves.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from msgspec import Struct


class Bucket(Struct, frozen=True):
    """How many values v had `low` <= v < `high`; `high` None is no upper end."""

    low: int
    high: int | None
    count: int


class LinearHistogram:
    """Buckets of `width` from 0 to `limit`, and one for all that is not below `limit`."""

    def __init__(self, width: int, limit: int) -> None:
        """`limit` is a multiple of `width`; both are positive."""
        self._width = width
        self._limit = limit
        self._counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        """Count `value`, which is not negative."""
        self._counts[min(value, self._limit) // self._width] += 1

    def buckets(self) -> list[Bucket]:
        """From the first bucket that counted something to the last, the empty between included."""
        last = self._limit // self._width
        return [
            Bucket(
                index * self._width,
                None if index == last else (index + 1) * self._width,
                self._counts[index],
            )
            for index in _span(self._counts)
        ]


class Log2Histogram:
    """Buckets from a power of two to the next, and one for 0."""

    def __init__(self) -> None:
        """Start empty."""
        self._counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        """Count `value`, which is not negative."""
        self._counts[value.bit_length()] += 1

    def buckets(self) -> list[Bucket]:
        """From the first bucket that counted something to the last, the empty between included."""
        return [
            Bucket(1 << bits >> 1, 1 << bits, self._counts[bits]) for bits in _span(self._counts)
        ]


class Quantiles:
    """Count, sum and ends of integers, exactly, and their quantiles to one part in 128.

    Each power of two is split into 128 buckets of one width (the idea of
    HdrHistogram), so a quantile is known to be in a bucket that is at most
    1/128 of its own value wide; values below 256 are exact.
    """

    _SPLIT_BITS = 7

    def __init__(self) -> None:
        """Start empty."""
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.total = 0
        self.min: int | None = None
        self.max: int | None = None

    def add(self, value: int) -> None:
        """Count `value`, which is not negative."""
        shift = max(value.bit_length() - self._SPLIT_BITS - 1, 0)
        self._counts[value >> shift << shift] += 1
        self.count += 1
        self.total += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)

    def quantile(self, part: Fraction) -> int | None:
        """The value that at least `part` of all values do not exceed (nearest rank).

        It errs towards more, by less than 1/128, never beyond the largest
        value seen; None when nothing was counted.
        """
        if self.max is None:
            return None
        rank = max(-(-self.count * part // 1), 1)
        below = 0
        for low in sorted(self._counts):
            below += self._counts[low]
            if below >= rank:
                shift = max(low.bit_length() - self._SPLIT_BITS - 1, 0)
                return min(low + (1 << shift) - 1, self.max)
        return self.max


class EqualWidthBucket(Struct, frozen=True):
    """How many values lay from `low` to `high`, which are exact but seldom whole."""

    low: Fraction
    high: Fraction
    count: int


def equal_width(values: Sequence[int], buckets: int) -> list[EqualWidthBucket]:
    """`values` in `buckets` buckets of one width, from the least value to the greatest.

    A bucket holds its lower end and not its upper one, but for the last, which
    holds both. Values that are all the same need, and get, one bucket alone.
    """
    if not values:
        return []
    low, span = min(values), max(values) - min(values)
    if not span:
        return [EqualWidthBucket(Fraction(low), Fraction(low), len(values))]
    counts = Counter(min((value - low) * buckets // span, buckets - 1) for value in values)
    edges = [low + Fraction(span * index, buckets) for index in range(buckets + 1)]
    return [
        EqualWidthBucket(edges[index], edges[index + 1], counts[index]) for index in range(buckets)
    ]


def _span(indices: Iterable[int]) -> range:
    found = list(indices)
    return range(min(found), max(found) + 1) if found else range(0)
