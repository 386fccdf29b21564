"""Percentiles of lengths of which only their powers of two are known."""

from kernel_delay.model import Histogram


def percentile(histogram: Histogram, fraction: float, max_ns: int) -> int:
    """Return the length that `fraction` (above 0, at most 1) of the intervals don't exceed.

    Of so few intervals that it is the longest of them (is_longest()) that is `max_ns`, exactly.
    Else it is what interpolated() returns: an estimate. The histogram must not be empty.
    """
    if is_longest(histogram, fraction):
        return max_ns
    return interpolated(histogram, fraction, max_ns)


def is_longest(histogram: Histogram, fraction: float) -> bool:
    """Whether only the longest interval of all reaches the percentile, as the 99th of below 100."""
    count = sum(histogram)
    return fraction * count > count - 1


def interpolated(histogram: Histogram, fraction: float, max_ns: int) -> int:
    """Return about the length that `fraction` of the intervals don't exceed.

    The interval in question is the one of rank r = fraction · count. It is in
    the first bucket i with which the counts reach r; of those in a bucket the
    lengths are taken to lie evenly between its bounds, so the result is

        2^i + (2^(i+1) - 2^i) · (r - counted below i) / (counted in i)

    as for a histogram in Prometheus (histogram_quantile()), but at most `max_ns`,
    the longest interval, and with 0 for the lowest bound. It is off by less
    than a factor of two, and below 2 ns by 2 ns at most. The histogram must not be
    empty.
    """
    rank = fraction * sum(histogram)
    below = 0
    for index, count in enumerate(histogram):
        if count and below + count >= rank:
            lower_ns = 1 << index if index else 0
            upper_ns = min(max_ns, 1 << (index + 1)) if index < 31 else max_ns
            inside_ns = max(0, upper_ns - lower_ns) * (rank - below) / count
            return min(max_ns, lower_ns + round(inside_ns))
        below += count
    return max_ns


def added(one: Histogram, other: Histogram) -> Histogram:
    """Return what two histograms, of any lengths, count together."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    padded = (*shorter, *(0,) * (len(longer) - len(shorter)))
    return tuple(a + b for a, b in zip(longer, padded, strict=True))
