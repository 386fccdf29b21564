"""A figure over several samples: what it is, and how far it strays by chance.

The samples are what was drawn: what lies within one belongs together, so its parts are never
taken for independent. A figure of all of them is the ratio of two sums, or a percentile of all
that they counted, and its variance is estimated from how it differs from sample to sample.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from kernel_delay.analysis.percentiles import interpolated
from kernel_delay.model import Histogram

_MOST_FREEDOM = 1000


def within(t: float, freedom: int) -> float:
    """The probability that |T| is at most `t`, which is not negative; `freedom` is at least 1."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * step / (step + 1)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def critical(chance: float, freedom: float) -> float:
    """The t that |T| exceeds with probability `chance`, which is above 0 and below 1.

    `freedom` is rounded down, which errs towards more; below 1 it is taken for 1.
    """
    whole = max(1, min(int(freedom), _MOST_FREEDOM))
    low, high = 0.0, 1.0
    while 1 - within(high, whole) > chance:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if 1 - within(middle, whole) > chance:
            low = middle
        else:
            high = middle
    return high


# Of more samples the ways to deal them out are too many to be worth counting.
_MANY = 1000


class Estimate(Struct, frozen=True):
    """A figure, the variance of it, and of how many samples both are."""

    value: float
    variance: float
    samples: int


class PercentileEstimate(Estimate, frozen=True):
    """A percentile: the variance is of its rank, of which `stray` is the standard deviation.

    A few ranks farther there may be a gap, as behind a burst, so its bounds are looked up.
    """

    fraction: float
    stray: float
    histogram: Histogram
    longest_ns: int

    def bounds(self, chance: float) -> tuple[int, int]:
        """Between which two lengths it is, but for a chance of `chance`: Woodruff (1952)."""
        if self.samples < 2:
            return 0, self.longest_ns
        far = critical(chance, self.samples - 1) * self.stray
        least = 1 / sum(self.histogram)
        ends = (max(self.fraction - far, least), min(self.fraction + far, 1.0))
        low, high = (interpolated(self.histogram, end, self.longest_ns) for end in ends)
        return low, high


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate | None:
    """The sum of the one by the sum of the other, a pair of each sample; None without a sum.

    The variance is that of Cochran, Sampling Techniques (1977), 6.3:

        n / (n - 1) · Σ (y_i - R x_i)² / (Σ x_i)²
    """
    whole, count = math.fsum(denominators), len(denominators)
    if not whole:
        return None
    value = math.fsum(numerators) / whole
    if count < 2:
        return Estimate(value, math.inf, count)
    squares = math.fsum((y - value * x) ** 2 for y, x in zip(numerators, denominators, strict=True))
    return Estimate(value, count / (count - 1) * squares / whole**2, count)


def rate(counts: Sequence[float], seconds: Sequence[float]) -> Estimate | None:
    """What was counted by the time; its variance is never below that of chance alone.

    That is Poisson's: the count itself, and of none seen as of one.
    """
    estimate = ratio(counts, seconds)
    if estimate is None or estimate.samples < 2:
        return estimate
    least = max(1.0, math.fsum(counts)) / math.fsum(seconds) ** 2
    return Estimate(estimate.value, max(estimate.variance, least), estimate.samples)


def proportion(having: int, count: int) -> Estimate:
    """What part of `count` samples has something, each of which has it or not.

    All or none of a few is not all or none for sure: the variance is of one more with, and one more
    without it (Agresti and Coull 1998).
    """
    likely = (having + 1) / (count + 2)
    return Estimate(having / count, likely * (1 - likely) / count, count)


def separable(before: int, after: int, chance: float) -> bool:
    """Whether so many samples of each side can distinguish a change from a chance of `chance`.

    If nothing had changed, each way to deal the samples out to the two sides were as likely. So
    even where all of the one are above all of the other, that is chance in 2 of all those ways.
    """
    before, after = min(before, _MANY), min(after, _MANY)
    return min(before, after) >= 2 and math.comb(before + after, before) >= 2 / chance


def percentile_of(
    histograms: Sequence[Sequence[int]], longest_ns: Sequence[int], fraction: float
) -> PercentileEstimate | None:
    """A percentile of all that was counted; None where nothing was.

    Its rank is as far off as the share of what is below it strays from sample to sample; and
    never less than by chance alone, which is binomial.
    """
    whole = tuple(_sums(histograms))
    count = sum(whole)
    if not count:
        return None
    most = max(longest_ns)
    value = interpolated(whole, fraction, most)
    counts = [sum(histogram) for histogram in histograms]
    below = ratio([_below(histogram, value, most) for histogram in histograms], counts)
    assert below is not None
    stray = math.sqrt(max(below.variance, fraction * (1 - fraction) / count))
    return PercentileEstimate(value, below.variance, below.samples, fraction, stray, whole, most)


def difference(before: Estimate, after: Estimate, chance: float) -> tuple[float, float]:
    """Between which two values `after` minus `before` is, but for a chance of `chance`.

    By Welch's t: the variances of the two need not be the same.
    """
    stray = _stray(before.variance, after.variance, before.samples, after.samples, chance)
    change = after.value - before.value
    return change - stray, change + stray


def quotient(before: Estimate, after: Estimate, chance: float) -> tuple[float, float]:
    """The same of `after` by `before`, which are both above 0.

    The logarithm of a mean strays as the mean does only while that is little. Where one sample of
    many makes the mean, the logarithm seems to stray by 1 however far that one is off; the
    difference strays by as much as it is. So the bounds are the wider ones of the two.
    """
    if isinstance(before, PercentileEstimate) and isinstance(after, PercentileEstimate):
        (least, most), (low, high) = before.bounds(chance), after.bounds(chance)
        return low / max(1, most), high / least if least else math.inf
    relative = [estimate.variance / estimate.value**2 for estimate in (before, after)]
    stray = _stray(relative[0], relative[1], before.samples, after.samples, chance)
    change = math.log(after.value / before.value)
    less, more = (1 + bound / before.value for bound in difference(before, after, chance))
    return min(_exp(change - stray), max(0.0, less)), max(_exp(change + stray), more)


def _stray(
    before: float, after: float, before_samples: int, after_samples: int, chance: float
) -> float:
    both = before + after
    if both == 0 or math.isinf(both):
        return both
    # Welch and Satterthwaite's degrees of freedom.
    parts = before**2 / (before_samples - 1) + after**2 / (after_samples - 1)
    return critical(chance, both**2 / parts if parts else 1.0) * math.sqrt(both)


def _exp(value: float) -> float:
    return math.inf if value > 700 else math.exp(value)


def _sums(histograms: Sequence[Sequence[int]]) -> list[int]:
    whole = [0] * max(map(len, histograms), default=0)
    for histogram in histograms:
        for index, count in enumerate(histogram):
            whole[index] += count
    return whole


def _below(histogram: Sequence[int], value: int, most: int) -> float:
    """How many lengths are below `value`: those of its own bucket lie evenly in it."""
    found = 0.0
    for index, count in enumerate(histogram):
        low = 1 << index if index else 0
        high = min(most, 1 << (index + 1)) if index < 31 else most
        if high <= value:
            found += count
        elif low < value:
            found += count * (value - low) / (high - low)
    return found
