"""How far figures stray: against tables of Student's t, and sums done by hand."""

import math

import pytest

from kernel_delay.analysis.percentiles import interpolated
from kernel_delay.analysis.spread import (
    Estimate,
    critical,
    difference,
    percentile_of,
    proportion,
    quotient,
    rate,
    ratio,
    separable,
    within,
)

# Quantiles of t, both tails 5 % and 1 %: any table, as NIST's handbook of statistics, 1.3.6.7.2.
TABLE = [
    (1, 12.706, 63.657),
    (2, 4.303, 9.925),
    (3, 3.182, 5.841),
    (4, 2.776, 4.604),
    (5, 2.571, 4.032),
    (10, 2.228, 3.169),
    (11, 2.201, 3.106),
    (30, 2.042, 2.750),
    (100, 1.984, 2.626),
]


@pytest.mark.parametrize(("freedom", "five", "one"), TABLE)
def test_t_is_that_of_the_tables(freedom: int, five: float, one: float) -> None:
    assert within(five, freedom) == pytest.approx(0.95, abs=1e-4)
    assert within(one, freedom) == pytest.approx(0.99, abs=1e-4)
    assert within(0, freedom) == 0
    assert critical(0.05, freedom) == pytest.approx(five, abs=6e-4)
    assert critical(0.01, freedom + 0.9) == pytest.approx(one, abs=6e-4)


def test_degrees_of_freedom_are_bounded() -> None:
    assert critical(0.05, 0.2) == critical(0.05, 1)
    assert critical(0.05, 1e12) == critical(0.05, 1000)
    assert critical(0.05, 1000) == pytest.approx(1.9623, abs=1e-4)
    assert critical(0.05, 999) > critical(0.05, 1000)


def test_a_ratio_is_of_sums() -> None:
    # Residuals of 0, 2 and -2, of 6 in all: 3/2 · 8/36.
    assert ratio((2, 6, 4), (1, 2, 3)) == Estimate(2.0, 3 / 2 * (0 + 4 + 4) / 36, 3)
    assert ratio((3,), (2,)) == Estimate(1.5, math.inf, 1)
    assert ratio((3, 1), (0, 0)) is None


def test_a_rate_strays_by_chance_at_least() -> None:
    assert rate((4, 4), (2, 2)) == Estimate(2.0, 8 / 16, 2)
    assert rate((0, 0), (2, 2)) == Estimate(0.0, 1 / 16, 2)
    assert rate((0, 100), (2, 2)) == Estimate(25.0, 2 * (50**2 + 50**2) / 16, 2)
    assert rate((4,), (2,)) == Estimate(2.0, math.inf, 1)
    assert rate((4,), (0,)) is None


def test_all_of_a_few_is_not_all_for_sure() -> None:
    for having, count, likely in ((3, 3, 0.8), (1, 4, 1 / 3)):
        found = proportion(having, count)
        assert (found.value, found.samples) == (having / count, count)
        assert found.variance == pytest.approx(likely * (1 - likely) / count)


@pytest.mark.parametrize(
    ("before", "after", "chance", "is_so"),
    [
        (2, 2, 1 / 3, True),
        (2, 2, 0.33, False),
        (4, 4, 2 / 70, True),
        (4, 4, 2 / 71, False),
        (1, 1000, 0.9, False),
        (1000, 1, 0.9, False),
        (2, 10**9, 1e-5, True),
        (10**9, 2, 1e-5, True),
        (2, 10**9, 1e-6, False),
    ],
)
def test_few_samples_distinguish_nothing(
    before: int, after: int, chance: float, is_so: bool
) -> None:
    assert separable(before, after, chance) is is_so


def test_a_percentile_strays_as_its_rank_does() -> None:
    # Lengths below 2, 4 and 8: 1, 1 and 2 of the first sample, 4 of the second below 2.
    found = percentile_of([(1, 1, 2), (4,)], (7, 1), 0.75)
    assert found is not None
    assert found.value == interpolated((5, 1, 2), 0.75, 7) == 4
    # Below 4 are 2 of 4, and 4 of 4: by 6 of 8 they differ by 1 each.
    assert found.variance == 2 / 1 * (1 + 1) / 64
    assert found.stray == math.sqrt(found.variance)
    assert (found.samples, found.fraction, found.longest_ns) == (2, 0.75, 7)
    assert found.histogram == (5, 1, 2)
    # The same in both: what is left is chance alone.
    same = percentile_of([(2, 2), (2, 2)], (3, 3), 0.75)
    assert same is not None
    assert same.stray == math.sqrt(0.75 * 0.25 / 8)
    assert percentile_of([(0, 0), ()], (3, 3), 0.75) is None


def test_lengths_of_a_bucket_lie_evenly_in_it() -> None:
    # Of 4 to 7 in the first sample, which ends at 6, half are below 5; none of the second.
    found = percentile_of([(0, 0, 2), (0, 0, 0, 2)], (6, 6), 0.25)
    assert found is not None
    assert found.value == 5
    assert found.variance == 2 / 1 * ((1 - 0.25 * 2) ** 2 + (0 - 0.25 * 2) ** 2) / 16
    # The last bucket has no upper end but the longest length.
    last = (*[0] * 31, 4)
    found = percentile_of([last, last], (3 << 31, 3 << 31), 0.5)
    assert found is not None
    assert found.value == 2 << 31
    assert found.variance == 0


def test_bounds_of_a_percentile_are_lengths() -> None:
    found = percentile_of([(1, 1, 2), (4,)], (7, 1), 0.75)
    assert found is not None
    far = critical(0.5, 1) * found.stray
    whole = (5, 1, 2)
    assert 0.75 - far > 1 / 8
    assert found.bounds(0.5) == (
        interpolated(whole, 0.75 - far, 7),
        interpolated(whole, min(1.0, 0.75 + far), 7),
    )
    # However far it strays, a percentile is a length.
    assert found.bounds(0.001) == (interpolated(whole, 1 / 8, 7), 7)
    one = percentile_of([(1, 1, 2)], (7,), 0.75)
    assert one is not None
    assert one.bounds(0.5) == (0, 7)


def test_a_difference_is_welchs() -> None:
    # https://en.wikipedia.org/wiki/Welch's_t-test: s²/N of 15 and 12, of 10 and 20 samples.
    before, after = Estimate(20.0, 1.5, 10), Estimate(22.0, 0.6, 20)
    freedom = 2.1**2 / (1.5**2 / 9 + 0.6**2 / 19)
    far = critical(0.05, freedom) * math.sqrt(2.1)
    assert difference(before, after, 0.05) == (2 - far, 2 + far)
    exact = Estimate(20.0, 0.0, 10), Estimate(21.0, 0.0, 10)
    assert difference(*exact, 0.05) == (1.0, 1.0)
    assert difference(before, Estimate(22.0, math.inf, 1), 0.05) == (-math.inf, math.inf)
    assert difference(Estimate(22.0, math.inf, 1), after, 0.05) == (-math.inf, math.inf)


def test_a_quotient_has_the_wider_bounds() -> None:
    exact = Estimate(2.0, 0.0, 10), Estimate(5.0, 0.0, 10)
    assert quotient(*exact, 0.05) == pytest.approx((2.5, 2.5))
    before, after = Estimate(10.0, 1.0, 10), Estimate(20.0, 4.0, 20)
    relative = 1 / 100 + 4 / 400
    freedom = relative**2 / (0.01**2 / 9 + 0.01**2 / 19)
    far = critical(0.05, freedom) * math.sqrt(relative)
    by_logarithm = 2 * math.exp(-far), 2 * math.exp(far)
    less, more = difference(before, after, 0.05)
    by_difference = 1 + less / 10, 1 + more / 10
    assert by_logarithm[0] < by_difference[0]
    assert by_difference[1] < by_logarithm[1]
    assert quotient(before, after, 0.05) == pytest.approx(by_logarithm)
    stray = Estimate(20.0, 64.0, 20)
    less, _ = difference(before, stray, 0.05)
    assert 1 + less / 10 > 0
    assert quotient(before, stray, 0.05)[0] == pytest.approx(1 + less / 10)
    # Not below 0, and without end where nothing is known.
    unknown = Estimate(20.0, math.inf, 1)
    assert quotient(before, unknown, 0.05) == (0.0, math.inf)
    far_off = Estimate(20.0, 400.0, 2)
    least, most = quotient(before, far_off, 0.001)
    assert least == 0.0
    assert most > 1e100


def test_a_quotient_of_percentiles_is_of_their_bounds() -> None:
    before = percentile_of([(0, 1, 2), (0, 3)], (7, 3), 0.5)
    after = percentile_of([(0, 0, 0, 4, 4), (0, 0, 0, 8)], (31, 15), 0.5)
    assert before is not None
    assert after is not None
    (least, most), (low, high) = before.bounds(0.5), after.bounds(0.5)
    assert 1 < least < most < low < high
    assert quotient(before, after, 0.5) == (low / most, high / least)
    nothing = percentile_of([(4,), (4,)], (0, 0), 0.5)
    assert nothing is not None
    assert quotient(nothing, after, 0.5) == (low, math.inf)
